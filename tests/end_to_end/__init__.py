"""The main path with nothing replaced: Spark, listener, agent, metrics, page, terminal."""
