"""The plugin built by Maven, for those who publish it to a repository of their own."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import spark_listener
from tests.lacking import program

POM = Path(spark_listener.__file__).parent / "plugin" / "pom.xml"
_JAVA_8 = 52


def test_it_has_the_listeners_version() -> None:
    version = ET.parse(POM).find("{http://maven.apache.org/POM/4.0.0}version")
    assert version is not None
    assert version.text == spark_listener.__version__


@pytest.mark.spark
@pytest.mark.slow("Maven gets its own parts")
@pytest.mark.timeout(300)
def test_maven_makes_a_jar_of_nothing_but_the_plugin_for_java_8(
    kafka_jars: None, tmp_path: Path
) -> None:
    done = subprocess.run(
        [program("mvn"), "-q", "-B", "-f", str(POM), f"-Dweir.directory={tmp_path}", "package"],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    [jar] = tmp_path.glob("*.jar")
    assert jar.name == f"weir-spark-plugin-{spark_listener.__version__}.jar"
    with zipfile.ZipFile(jar) as packed:
        names = [name for name in packed.namelist() if name.endswith(".class")]
        assert {name.split("$")[0].removesuffix(".class") for name in names} == {"weir/WeirPlugin"}
        assert all(int.from_bytes(packed.read(name)[6:8], "big") == _JAVA_8 for name in names)
