"""Weir in the Spark driver: standard library and PySpark only; it never breaks the job."""
