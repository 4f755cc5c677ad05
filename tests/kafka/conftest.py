"""The live tests' Spark, agent and listener are those of tests/spark."""

from __future__ import annotations

from tests.spark.conftest import attached, folder, own_logger, spark, start

__all__ = ["attached", "folder", "own_logger", "spark", "start"]
