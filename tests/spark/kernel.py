"""A notebook's Python, whose JVM outlives it: ``python -m tests.spark.kernel``.

The JVM is that of PYSPARK_GATEWAY_PORT. Each line of the standard input is run; its answer is one
line of JSON: of an expression its value.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from typing import Any


def session() -> Any:
    """The JVM's session, as platforms hand it to Python; the first to come makes it."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()
    found = gateway.jvm.SparkSession.getDefaultSession()
    if not found.isDefined():
        return (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .getOrCreate()
        )
    java = found.get()
    context = gateway.jvm.JavaSparkContext.fromSparkContext(java.sparkContext())
    conf = SparkConf(_jconf=context.getConf())
    return SparkSession(SparkContext(gateway=gateway, jsc=context, conf=conf), java)


def main() -> None:
    """Until the input ends."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    known: dict[str, Any] = {"spark": session()}
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        try:
            code: Any = compile(line.strip(), "<cell>", "eval")
        except SyntaxError:
            code = line
        try:
            told = eval(code, known) if not isinstance(code, str) else exec(code, known)
        except Exception:
            told = {"raised": traceback.format_exc()}
        print(json.dumps(told, default=str), flush=True)


if __name__ == "__main__":
    main()
