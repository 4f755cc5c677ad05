"""Judge: what the figures mean: checkpoints, lag, spirals, late rows, failures; what would help."""
