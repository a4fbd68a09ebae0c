"""Frozen values and pure functions: nothing here touches the outside world."""
