"""What is said to an engine that runs, and what it says."""
