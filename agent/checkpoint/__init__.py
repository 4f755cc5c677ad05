"""Checkpoints as data: look into them, copy them, and re-plan a batch that cannot finish."""
