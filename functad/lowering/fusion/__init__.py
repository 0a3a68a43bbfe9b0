"""Which equations share a kernel (fusion groups), in which order, and matrix products with what they take in."""
