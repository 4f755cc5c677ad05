"""A monitoring stack without containers: the demo's job, the agent, Prometheus, Alertmanager."""
