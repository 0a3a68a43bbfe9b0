"""The text of kernels: nests and steps, and what of them the grid, its blocks and their threads do."""
