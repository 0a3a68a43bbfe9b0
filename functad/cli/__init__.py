"""What `python -m functad` does besides training: `doctor`, `cache`, `explain`."""
