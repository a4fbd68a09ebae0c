"""Patched releases as files: wheels, sdists, kits for offline hosts, and an index to serve them."""
