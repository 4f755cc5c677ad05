"""What a test needs and this machine has not: there it skips, and under CI it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

from spark_listener import plugin

ENSURED = "sh scripts/ensure-tools.sh"


def lacking(why: str) -> NoReturn:
    """Ends the test; ``why`` says what is missing and, where there is one, what brings it."""
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


def program(*names: str, brings: str = ENSURED) -> str:
    """Where a program is, under one of its names; ``brings`` is the command that installs it.

    What JAVA_HOME has of it goes before what PATH has, as with Spark.
    """
    home = os.environ.get("JAVA_HOME")
    for name in names:
        if home and (there := shutil.which(name, path=str(Path(home, "bin")))):
            return there
        if found := shutil.which(name):
            return found
    lacking(f"{names[0]} is missing: {brings}")


def mount_namespace() -> list[str]:
    """Before a command: it may mount, which nobody else sees."""
    apart = [program("unshare", brings="util-linux has it"), "--map-root-user", "--mount"]
    probe = subprocess.run([*apart, "true"], capture_output=True, check=False)
    if probe.returncode != 0:
        lacking("a mount namespace cannot be made here, so nothing can be mounted")
    return apart


def plugin_jar() -> Path:
    """The plugin as it is compiled here."""
    if not plugin.JAR.is_file():
        lacking("the Spark plugin is not compiled: make plugin, which takes a JDK")
    return plugin.JAR
