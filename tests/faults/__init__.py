"""Faults on purpose: what killed processes, damaged files, full disks, many threads and forks do to functad."""
