"""What surrounds a patched engine: the host it runs on, its process, its answers, its image."""
