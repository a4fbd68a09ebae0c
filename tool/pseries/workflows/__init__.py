"""One use case a file, told by values; nothing here prints."""
