"""Tests of what measures public workloads."""
