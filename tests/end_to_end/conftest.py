"""The fixtures of the tests on real Spark, with a real agent beside them."""

from tests.spark.conftest import attached, folder, own_logger, spark, start

__all__ = ["attached", "folder", "own_logger", "spark", "start"]
