"""Tilewright: software-managed AI accelerators on a laptop."""

__version__ = "0.1.0"
