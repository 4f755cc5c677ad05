"""Names that YAML reads as something else than text: an API server refuses them, unless quoted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.helm import chart
from tests.helm.matrix import MATRIX

if TYPE_CHECKING:
    from collections.abc import Iterator

#: All of them are names that Kubernetes takes; what a reader of YAML makes of each without quotes.
NAMES: dict[str, Any] = {"123": 123, "1e3": 1000.0, "0x1f": 31, "1.5": 1.5, "null": None}
NAMESPACE = "2024"
#: Between them every object and every name in one.
ENTRIES = (
    *("shared-namespaces", "shared-tls", "shared-monitored", "shared-given-volume"),
    *("sidecar-monitored", "sidecar-volume"),
)


class Loader(yaml.SafeLoader):
    """Numbers as the API server's reader of YAML takes them: ``1e3`` is one, without a dot."""


Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+[eE][-+]?\d+\Z"), list("-+0123456789")
)


def scalars(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that is no map and no list, with its place; files of YAML within are opened."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield f"{place} key", key
            yield from scalars(one, f"{place}.{key}")
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from scalars(one, f"{place}[{number}]")
    elif isinstance(value, str) and re.search(r"\.yaml\Z", place):
        yield from scalars(yaml.load(value, Loader), place + ":")
    else:
        yield place, value


@pytest.mark.parametrize(
    ("name", "entry"),
    [*(("123", entry) for entry in ENTRIES), *((name, "shared-monitored") for name in NAMES)],
)
def test_a_name_stays_text(name: str, entry: str) -> None:
    done = chart.helm(
        *("template", name, str(chart.CHART), "--namespace", NAMESPACE),
        values=chart.merged(
            chart.IMAGE,
            {"serviceAccount": {"create": True, "name": "789"}},
            # No Service is called by a number; nothing else minds.
            {"fullnameOverride": "weir"} if entry.startswith("shared") else {},
            MATRIX[entry],
        ),
    )
    assert done.returncode == 0, done.stderr
    objects = [one for one in yaml.load_all(done.stdout, Loader) if one]
    assert objects
    for one in objects:
        for place, value in scalars(one):
            assert value not in (NAMES[name], int(NAMESPACE), 789), (
                f"{one['kind']}{place}: {value!r}"
            )
        labels = one["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == name


def test_an_override_stays_text() -> None:
    values: chart.Values = {
        "mode": "sidecar",
        "fullnameOverride": "123",
        "token": {"create": False, "existingSecret": "456"},
    }
    for one in yaml.load_all(chart.template(values), Loader):
        for place, value in scalars(one):
            assert value not in (123, 456), f"{one['kind']}{place}"
