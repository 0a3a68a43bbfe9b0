"""Running compiled Programs: tapes, the loop that runs them, the pool of threads, plain Python."""
