"""Series that begin, come in and go out."""
