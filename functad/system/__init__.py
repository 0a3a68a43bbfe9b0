"""What functad asks of the operating system and of threads: files, waiting, forgetting, progress.

Knows no Programs.
"""
