"""The engine at work: its machine, its start, its answers."""
