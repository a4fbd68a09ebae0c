"""Calls and signatures, read from source: does what is called take what it is given."""
