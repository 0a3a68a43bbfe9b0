"""The version of functad."""

__version__ = "0.1.0"
