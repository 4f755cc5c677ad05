"""Compiles Weir's Spark plugin into its jar: ``python -m scripts.plugin_jar [COPY_TO]``.

The same source gives the same bytes. It is compiled against the jars of the PySpark that is
installed here, for Java 8, which Spark 3.5 still runs on; it names nothing that Spark 3.5 to 4.3 do
not all have. A jar that is there already, of this source, stays.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from spark_listener.plugin import JAR

PLUGIN: Final = Path(__file__).resolve().parents[1] / "spark_listener" / "plugin"
SOURCE: Final = PLUGIN / "WeirPlugin.java"
_OPTIONS: Final = ("--release", "8", "-Xlint:-options", "-Xlint:-path", "-g:none")
_MANIFEST: Final = "META-INF/MANIFEST.MF"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the first that a zip can tell


def _manifest() -> str:
    from spark_listener import __version__

    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()
    return (
        "Manifest-Version: 1.0\r\n"
        "Implementation-Title: weir-spark-plugin\r\n"
        f"Implementation-Version: {__version__}\r\n"
        f"Weir-Source: {digest[:32]}\r\n"
        "\r\n"
    )


def is_made() -> bool:
    """Whether the jar is of the source as it is now."""
    try:
        with zipfile.ZipFile(JAR) as jar:
            return jar.read(_MANIFEST).decode() == _manifest()
    except (OSError, KeyError, zipfile.BadZipFile):
        return False


def compiler() -> str | None:
    """The javac of JAVA_HOME, whose java Spark takes, else the one on PATH; None: there is none."""
    home = os.environ.get("JAVA_HOME")
    of_home = shutil.which("javac", path=str(Path(home, "bin"))) if home else None
    return of_home or shutil.which("javac")


def make() -> None:
    """Compiles. Raises SystemExit, with a line, where that cannot be."""
    javac = compiler()
    spark = importlib.util.find_spec("pyspark")
    if javac is None:
        raise SystemExit(
            "javac is missing: set JAVA_HOME to a JDK, or install one (Debian, Ubuntu:"
            " apt-get install openjdk-17-jdk-headless; macOS: brew install openjdk@17)"
        )
    if spark is None or spark.origin is None:
        raise SystemExit("PySpark is not installed here: its jars are needed to compile")
    jars = Path(spark.origin).parent / "jars"
    with tempfile.TemporaryDirectory() as made:
        done = subprocess.run(  # noqa: S603
            [javac, *_OPTIONS, "-classpath", f"{jars}/*", "-d", made, str(SOURCE)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(f"javac: {done.stderr.strip()}")
        classes = sorted(Path(made).rglob("*.class"))
        files = {str(path.relative_to(made)): path.read_bytes() for path in classes}
    partial = JAR.with_suffix(".new")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as jar:
        for name, data in {_MANIFEST: _manifest().encode(), **files}.items():
            about = zipfile.ZipInfo(name, _EPOCH)
            about.compress_type = zipfile.ZIP_DEFLATED
            about.external_attr = 0o644 << 16
            jar.writestr(about, data)
    partial.replace(JAR)


if __name__ == "__main__":
    if not is_made():
        make()
        sys.stdout.write(f"weir: made {JAR.relative_to(PLUGIN.parents[1])}\n")
    for folder in sys.argv[1:]:
        Path(folder).mkdir(exist_ok=True)
        sys.stdout.write(f"{shutil.copy(JAR, folder)}\n")
