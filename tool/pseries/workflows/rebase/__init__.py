"""A series carried to another release."""
