"""What runs: devices, their memory, launches and graphs of them, by NVIDIA's driver or its stand-in."""
