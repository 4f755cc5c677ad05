"""Public workloads on a real cluster and broker: as configured, fixed, scaled, under Weir."""
