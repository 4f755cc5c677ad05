"""Where a platform gives drivers another temporary directory, its page names the doors' folder.

Without that the plugin opens its door in one place and the agent looks in another, both silently.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

START = Path(__file__).resolve().parents[2] / "docs" / "start"
#: Databricks starts its driver with `-Djava.io.tmpdir`, YARN each one in cluster mode with another
#: one; on a standalone cluster the Worker's environment decides.
APART = ("databricks.md", "standalone.md", "yarn.md")


@pytest.mark.parametrize("name", APART)
def test_agent_and_driver_are_given_one_folder_of_doors(name: str) -> None:
    text = (START / name).read_text("utf-8")
    agents = re.findall(r"--doors (\S+)", text)
    drivers = re.findall(r"spark\.weir\.door\.dir[= ](\S+)", text)
    assert agents == drivers
    assert len(agents) == 1
