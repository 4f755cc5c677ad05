"""One alert of the committed rules by itself: promtool evaluates every rule at every step."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

import yaml

from alerts import generate

if TYPE_CHECKING:
    from pathlib import Path


@functools.cache
def _committed() -> list[dict[str, Any]]:
    text = (generate.DIRECTORY / generate.RULES).read_text("utf-8")
    groups: list[dict[str, Any]] = yaml.safe_load(text)["groups"]
    return groups


def groups() -> list[str]:
    """The names of all groups, in order."""
    return [str(group["name"]) for group in _committed()]


def rules_of(alert: str, folder: Path) -> Path:
    """A file in the folder with the alert as committed, and with what is recorded for it."""
    wanted = {alert}
    while True:
        groups = [
            {**group, "rules": [one for one in group["rules"] if _name(one) in wanted]}
            for group in _committed()
        ]
        said = " ".join(one["expr"] for group in groups for one in group["rules"])
        assert "ALERTS" not in said, "it hangs on another alert"
        more = {
            one["record"]
            for group in _committed()
            for one in group["rules"]
            if one.get("record", alert) in said
        }
        if more <= wanted:
            break
        wanted |= more
    path = folder / "rules.json"
    path.write_text(json.dumps({"groups": [group for group in groups if group["rules"]]}))
    return path


def _name(rule: dict[str, Any]) -> str:
    return str(rule.get("record") or rule["alert"])
