"""Simulation: a controller against a synthetic plant, before it touches a job."""
