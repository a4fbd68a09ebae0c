"""Series folders, and what a series means on its release."""
