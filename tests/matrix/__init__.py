"""Which versions of Spark Weir works with, tried out one by one: ``make test-matrix``."""
