"""Patches and mails: reading and writing them without loss, and applying them to files."""
