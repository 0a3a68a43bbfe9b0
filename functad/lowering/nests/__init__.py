"""Loop nests as data: index expressions, loops, statements, what they cost, and what every printer of them needs."""
