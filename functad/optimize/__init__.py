"""The optimiser: Program → Program with the same results, up to rounding, that takes less time or memory."""
