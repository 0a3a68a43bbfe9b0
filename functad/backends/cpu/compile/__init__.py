"""From kernel text to machine code in memory and on disk. Knows nothing of what kernels compute."""
