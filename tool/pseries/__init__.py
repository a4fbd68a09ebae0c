"""Keeps local changes to fast-moving Python packages alive."""

__version__ = "0.1.0"
