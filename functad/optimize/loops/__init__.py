"""Passes over loops: what leaves them, what goes in, which become one, how their operands are laid out."""
