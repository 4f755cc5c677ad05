"""The fixtures of the tests on real Spark, with a real agent beside them."""

from tests.spark.conftest import attached, folder, spark, start

__all__ = ["attached", "folder", "spark", "start"]
