"""The checkpoints in the jars of Spark's own tests, which scripts/ensure-kafka.sh gets."""

import zipfile
from pathlib import Path

from tests.lacking import lacking

JARS = Path(__file__).resolve().parents[2] / ".make" / "kafka"
_WITHIN = "structured-streaming/"


def unpack(folder):
    """All of them below ``folder``; without the jars the test is skipped, under CI it fails."""
    for line in ("3.5", "4.2"):
        jars = sorted((JARS / f"fixtures-{line}").glob("*.jar"))
        if not jars:
            lacking("Spark's tests are missing: sh scripts/ensure-kafka.sh gets them")
        with zipfile.ZipFile(jars[0]) as jar:
            jar.extractall(folder, [name for name in jar.namelist() if name.startswith(_WITHIN)])
    return Path(folder) / _WITHIN
