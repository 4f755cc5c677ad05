"""Measure: what events say of a query's flow, and what its batches cost."""
