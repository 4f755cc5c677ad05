"""The demo: a real Spark job in bursts, as configured and under Weir. Run by `make demo`."""
