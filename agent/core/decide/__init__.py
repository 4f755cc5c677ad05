"""Decide: what each source may admit to the next batch, and why."""
