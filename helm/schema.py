"""What the chart knows of the agent's options: in values.schema.json, and for the checks.

``python -m helm.schema`` writes the value ``config`` into values.schema.json, the rest of which is
written by hand, and files/agent.json, by which templates/_checks.tpl refuses what the agent would.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from agent.service.config import LABEL_NAME, MAX_LABEL_VALUE, Settings, reserved_labels

CHART: Final = Path(__file__).parent / "weir"
FILE: Final = CHART / "values.schema.json"
FACTS: Final = CHART / "files" / "agent.json"
#: Options that the chart sets itself, from other values.
OWN: Final = frozenset(
    {
        "host",
        "port",
        "address_file",
        "doors",
        "token_file",
        "events_token_file",
        "state_dir",
        "tls_cert_file",
        "tls_key_file",
    }
)
#: What pydantic calls a bound inside a union, and what JSON Schema calls it.
_BOUNDS: Final = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
}
_PASSED_OVER: Final = frozenset({"title", "default", "group", "format"})


def config_schema() -> dict[str, Any]:
    """The schema of the value ``config``: the agent's options but for the chart's own."""
    schema = Settings.model_json_schema()
    rule = _plain(schema["$defs"]["RuleSettings"])
    properties = {
        name: _plain(one) for name, one in schema["properties"].items() if name not in OWN
    }
    properties["rules"]["items"] = rule
    properties["labels"]["additionalProperties"]["maxLength"] = MAX_LABEL_VALUE
    return {
        "description": "Options of the agent by their plain names; see docs/configuration.md.",
        "type": "object",
        "additionalProperties": False,
        "properties": dict(sorted(properties.items())),
    }


def _plain(node: Any) -> Any:
    if isinstance(node, list):
        return [_plain(one) for one in node]
    if not isinstance(node, dict):
        return node
    if "properties" in node:
        kept = {key: value for key, value in node.items() if key not in _PASSED_OVER}
        return {**kept, "properties": {name: _plain(v) for name, v in node["properties"].items()}}
    plain = {
        _BOUNDS.get(key, key): _plain(value)
        for key, value in node.items()
        if key not in _PASSED_OVER
    }
    if "off" in plain.get("enum", []):
        # Unquoted, YAML reads on and off as truth values; the agent takes those for the words.
        plain["enum"] = [*plain["enum"], *([True] if "on" in plain["enum"] else []), False]
        plain.pop("type", None)
    return plain


def text(current: str) -> str:
    """The file's text with that part made anew."""
    schema = json.loads(current)
    schema["properties"]["config"] = config_schema()
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def facts() -> str:
    """What the checks need to know of the agent, as text: how it takes what is not set, labels."""
    told = {
        "defaults": Settings().model_dump(
            include={"target_seconds", "minimum_limit", "minimum_executors"}
        ),
        "label_name": LABEL_NAME.pattern,
        "reserved_labels": sorted(reserved_labels()),
    }
    return json.dumps(told, indent=2) + "\n"


def main() -> None:
    """Rewrites both files."""
    FILE.write_text(text(FILE.read_text("utf-8")), "utf-8")
    FACTS.write_text(facts(), "utf-8")
    print(FILE, FACTS, sep="\n")  # noqa: T201 - a command's output


if __name__ == "__main__":
    main()
