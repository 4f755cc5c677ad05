"""Grafana dashboards as code: each module reads like the dashboard it makes.

``python -m dashboards`` writes the JSON below ``dashboards/generated``, which is committed: Grafana
needs nothing but that. Metric names come from ``agent.export.catalogue`` alone.
"""
