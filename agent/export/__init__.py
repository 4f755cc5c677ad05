"""Where judgements go: Prometheus, the status page, the terminal."""
