"""Prometheus rules as code: symptoms that people must know of, each with a runbook.

``python -m alerts`` writes the YAML below ``alerts/generated``, which is committed: Prometheus and
Alertmanager need nothing but that. Metric names come from ``agent.export.catalogue`` alone.
"""
