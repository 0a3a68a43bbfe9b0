"""Errors of functad's functions in units in the last place: `python -m tests.accuracy`."""
