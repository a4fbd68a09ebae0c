"""A series and an installed tree."""
