"""What becomes of a change on another release: three texts in, a verdict with evidence out."""
