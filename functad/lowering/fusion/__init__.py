"""Which equations share a kernel: units, in which order, and matrix products with what they take in."""
