"""docs/deploy.md's way to a new token, its commands as they stand there: no driver is shut out."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from agent.service.access import Tokens
from spark_listener.channel import Channel
from tests.helm import chart
from tests.helm.matrix import MATRIX

if TYPE_CHECKING:
    from pathlib import Path

PAGE = (chart.ROOT / "docs" / "deploy.md").read_text("utf-8")
SECTION = PAGE.partition("\n## A new token\n")[2].partition("\n## ")[0]
#: In the place of kubectl: keeps what each patch makes of the Secret, by number.
KUBECTL = r"""#!/bin/bash
newest=$(ls "$HELD" | sort -n | tail -n 1)
case "$*" in
  *" get secret weir-driver-token "*) base64 <"$HELD/$newest" ;;
  *" patch secret weir-driver-token "*)
    text=$(sed -n 's/^{"data":{"token":"\([^"]*\)"}}$/\1/p' <<<"${@: -1}")
    base64 -d <<<"$text" >"$HELD/$((newest + 1))" ;;
  *) exit 1 ;;
esac
"""


def blocks(beginning: str) -> list[str]:
    found = re.findall(r"^ *```sh\n(.*?)^ *```", SECTION, re.DOTALL | re.MULTILINE)
    return [one for one in found if one.strip().startswith(beginning)]


@pytest.mark.parametrize("old", [b"made-without-a-line-end", b"written-by-hand\n"])
def test_each_step_lets_every_driver_in(tmp_path: Path, old: bytes) -> None:
    held = tmp_path / "held"
    held.mkdir()
    (held / "0").write_bytes(old)
    program = tmp_path / "kubectl"
    program.write_text(KUBECTL)
    program.chmod(0o700)
    script = "".join(["set -eu\n", *blocks("(umask"), *blocks("put ")])
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HELD": str(held)}
    subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environ, check=True, timeout=20)
    files = sorted(held.iterdir(), key=lambda file: int(file.name))
    assert len(files) == 4, "three steps"
    for step in itertools.pairwise(files):
        # The kubelet renews the file of one pod sooner than that of the other.
        for agent, driver in itertools.product(step, step):
            assert Tokens(agent).accept(sent(driver)), (agent, driver)
    assert not Tokens(files[-1]).accept(old.strip())
    # It is what Prometheus may be given, too.
    assert re.fullmatch(rb"[0-9a-f]{64}", files[-1].read_bytes())


#: In its place where Prometheus has a Secret of its own: keeps what both are after each change.
BOTH = r"""#!/bin/bash
newest=$(ls "$HELD" | sort -n | tail -n 1)
next=$((newest + 1))
text() { sed -n 's/^{"data":{"token":"\([^"]*\)"}}$/\1/p' <<<"$1" | base64 -d; }
case "$*" in
  *" get secret weir-token "*) base64 <"$HELD/$newest/agent"; exit 0 ;;
esac
cp -r "$HELD/$newest" "$HELD/$next"
case "$*" in
  *" create secret generic weir-scrape --from-file=token="*)
    from=${@: -1}; cat "${from##*=}" >"$HELD/$next/scraper" ;;
  *" patch secret weir-token "*) text "${@: -1}" >"$HELD/$next/agent" ;;
  *" patch secret weir-scrape "*) text "${@: -1}" >"$HELD/$next/scraper" ;;
  *" delete secret weir-scrape") cat "$HELD/$next/agent" >"$HELD/$next/scraper" ;;
  *" patch servicemonitor weir "*) ;;
  *) exit 1 ;;
esac
"""
NUMBERS = {"first": 1, "second": 2, "third": 3, "fourth": 4}


def test_each_step_lets_prometheus_in(tmp_path: Path) -> None:
    first = tmp_path / "held" / "0"
    first.mkdir(parents=True)
    for name in ("agent", "scraper"):
        (first / name).write_bytes(b"made-without-a-line-end")
    program = tmp_path / "kubectl"
    program.write_text(BOTH)
    program.chmod(0o700)
    steps = {float(number): put for number, put in enumerate(blocks("put "), 1)}
    aside = SECTION.partition("With `metrics_need_token`")[2]
    for when, number, script in re.findall(
        r"(before|after) the (\w+)\b(?:(?!```).)*?:\n\n```sh\n(.*?)```", aside, re.DOTALL
    ):
        steps[NUMBERS[number] + (0.5 if when == "after" else -0.5)] = script
    assert sorted(steps) == [0.5, 1.0, 2.0, 2.5, 3.0, 4.5]
    (begin,) = blocks("(umask")
    script = "".join(["set -eu\n", begin, *(steps[step] for step in sorted(steps))])
    script = script.replace("secret=weir-driver-token", "secret=weir-token")
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HELD": str(tmp_path / "held")}
    subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environ, check=True, timeout=20)
    states = sorted((tmp_path / "held").iterdir(), key=lambda state: int(state.name))
    for step in itertools.pairwise(states):
        # A file is renewed, and a scraper reloaded, some time after each change.
        for agent, scraper in itertools.product(step, step):
            told = (scraper / "scraper").read_bytes()
            assert Tokens(agent / "agent").accept(told), (agent.name, scraper.name)
    # Prometheus has its new one later than agents can let go of the old one.
    waits = aside.partition("before the third")[2].partition("after the fourth")[0]
    assert "Go on with the third some five minutes later" in waits


@pytest.mark.parametrize(
    "doing", ["--replicas=0", "put it in the place of", "patch servicemonitor"]
)
def test_what_puts_objects_back_is_turned_off_before(doing: str) -> None:
    before = PAGE.partition(doing)[0]
    said = before.rindex("urn off [what puts objects back](#one-agent-for-many-jobs)")
    assert before[said:].count("\n\n") <= 2, "in the paragraph before, or the same"
    own = PAGE.partition("\n## One agent for many jobs\n")[2].partition("\n## ")[0]
    assert "argocd app set weir" in own
    assert "flux suspend helmrelease weir" in own


def sent(file: Path) -> bytes:
    """The token that a driver sends."""
    return Channel("http://127.0.0.1:9655", token_file=str(file))._token().encode()


@pytest.mark.parametrize(
    ("name", "kind", "part"),
    [
        ("shared-monitored", "ServiceMonitor", "endpoints"),
        ("sidecar-monitored", "PodMonitor", "podMetricsEndpoints"),
    ],
)
def test_the_place_in_the_monitor_is_one(name: str, kind: str, part: str) -> None:
    assert part in SECTION
    assert kind.lower() in SECTION
    (path,) = re.findall(r'\\"path\\":\\"/([^"]+)\\"', SECTION)
    node: Any = chart.only(chart.render(MATRIX[name]), kind)
    for step in path.replace("endpoints", part).split("/"):
        node = node[int(step) if step.isdecimal() else step]
    assert node == "weir-token"
