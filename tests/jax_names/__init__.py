"""What of JAX's public names functad has: `JAX_NAMES.md`, made from JAX itself, and checked without it."""
