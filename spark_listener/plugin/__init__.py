"""Weir's Spark plugin: ``weir.WeirPlugin``, one class for a driver's JVM, and its jar."""

from __future__ import annotations

from pathlib import Path
from typing import Final

#: What ``spark.extraListeners`` or ``spark.plugins`` names.
NAME: Final = "weir.WeirPlugin"
#: The settings that can name it, the better one first: executors never load a listener.
CONFS: Final = ("spark.extraListeners", "spark.plugins")
#: Where it lies once it is compiled: in every wheel.
JAR: Final = Path(__file__).resolve().parent / "weir-spark-plugin.jar"
