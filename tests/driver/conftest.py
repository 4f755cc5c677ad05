"""A bare JVM with Spark's classes and no Spark."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def gateway() -> Iterator[JavaGateway]:
    jars = Path(pyspark.__file__).parent / "jars"
    port, token = launch_gateway(
        classpath=str(jars / "*"),
        jarpath=glob.glob(str(jars / "py4j-*.jar"))[0],  # noqa: PTH207 - py4j wants texts
        die_on_exit=True,
        enable_auth=True,
    )
    made = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    yield made
    made.shutdown()
