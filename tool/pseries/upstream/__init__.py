"""Releases of a distribution, wherever they come from, as trees in a local git repository."""
