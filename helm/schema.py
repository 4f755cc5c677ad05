"""The part of helm/weir/values.schema.json that follows from the agent's options.

``python -m helm.schema`` writes it into the file; the rest of the file is written by hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from agent.service.config import Settings

FILE: Final = Path(__file__).parent / "weir" / "values.schema.json"
#: Options that the chart sets itself, from other values.
OWN: Final = frozenset(
    {
        "host",
        "port",
        "address_file",
        "doors",
        "token_file",
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


def main() -> None:
    """Rewrites the file."""
    FILE.write_text(text(FILE.read_text("utf-8")), "utf-8")
    print(FILE)  # noqa: T201 - a command's output


if __name__ == "__main__":
    main()
