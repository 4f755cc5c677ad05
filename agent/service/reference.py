"""docs/configuration.md and the help of ``weir agent``, both from the settings.

``python -m agent.service.reference`` rewrites the page.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from agent.service.config import ENV_PREFIX, RuleSettings, Settings, flag_of, near_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic.fields import FieldInfo

PAGE: Final = Path(__file__).parents[2] / "docs" / "configuration.md"
_METAVARS: Final = {
    "executors_quiet_hours": "HH:MM-HH:MM",
    "address_file": "FILE",
    "token_file": "FILE",
    "events_token_file": "FILE",
    "tls_cert_file": "FILE",
    "tls_key_file": "FILE",
    "record_file": "FILE",
    "state_dir": "DIR",
    "host": "ADDRESS",
    "labels": "NAME=VALUE,…",
    "spark_ui_hosts": "HOST,…",
    "event_log_dirs": "DIR,…",
    "kafka_bootstrap_servers": "HOST:PORT,…",
    "kafka_commit_group": "PATTERN",
    "kafka_options_file": "FILE",
    "rules": "JSON",
    "mode": "off|dry-run|on",
    "durability": "normal|full",
    "give_limits": "safe|all",
    "executors": "off|dry-run|on",
    "driver_process": "off|auto|PID",
    "doors": "off|DIR",
    "log_format": "json|text",
    "late_rows": "hold|guard|allow",
    "log_level": "debug|info|warning|error",
}
#: The other commands' names for the same.
_ALSO: Final = {"target_seconds": "--target", "deadline_seconds": "--deadline"}
_HEAD: Final = """\
# Configuration of the agent

<!-- Made by `python -m agent.service.reference`; do not edit. -->

Every option can stand on the command line of `weir agent`, in the environment, or in a YAML file
(`--config FILE` or `WEIR_CONFIG`). The command line wins over the environment, the environment over
the file. In the file an option has its plain name:

```yaml
host: 0.0.0.0
token_file: /run/secrets/weir/token
state_dir: /var/lib/weir
target_seconds: 5
deadline_seconds: 60
labels: {namespace: shop, cluster: a}
rules:
  - match: "orders/*"
    target_seconds: 2
  - match: "*-backfill"
    mode: "off"
```

An unknown key, in the file or as a `WEIR_` variable, or a wrong value ends the agent at once with
exit code 2 and one line that names it. Passed over are the variables of the driver side and of the
other commands, and those that Kubernetes makes for a service named `weir…`. `labels` on the command
line or in the environment is `name=value,name=value` or a JSON object, `rules` a JSON list. Flags
that are true or false may stand without a value: `--metrics-need-token`. `--target` and
`--deadline` are short for `--target-seconds` and `--deadline-seconds`, as in the other commands.
"""


def markdown() -> str:
    """The whole page."""
    parts = [_HEAD]
    for group, fields in groupby(Settings.model_fields.items(), key=lambda item: _group(item[1])):
        parts.append(f"\n## {group}\n")
        parts.append("| option | default | what it does | variable |")
        parts.append("|---|---|---|---|")
        for key, field in fields:
            description = (field.description or "").replace("|", "\\|")
            parts.append(
                f"| `{flag_of(key)}` | {_default(field.default)} | {description} "
                f"| `{ENV_PREFIX}{key.upper()}` |"
            )
    parts.append("\n## Rules\n")
    parts.append(
        "Each rule has `match`, a shell pattern for `query` or `application/query` (of a second "
        "live query of a name: as it is called, or as its series are), and any of "
        + ", ".join(f"`{key}`" for key in RuleSettings.model_fields if key != "match")
        + ". What a rule leaves out stays as it is."
    )
    return "\n".join(parts) + "\n"


def parse(arguments: Sequence[str]) -> tuple[dict[str, str], str | None]:
    """The command line of ``weir agent``: options by key, as text, and the configuration file.

    Exits with 0 after ``--help`` and with 2 and one line where an option is unknown.
    """
    parser = _Parser(
        prog="weir agent",
        usage="weir agent [--OPTION VALUE]...",
        formatter_class=_Formatter,
        description="Takes in events, judges, answers with grants, shows it all.",
        epilog="Every option can also stand in the file, and in the environment as WEIR_OPTION.",
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    parser.add_argument("--config", metavar="FILE", help="YAML file with these options.")
    for group, fields in groupby(Settings.model_fields.items(), key=lambda item: _group(item[1])):
        section = parser.add_argument_group(group)
        for key, field in fields:
            help_text = f"{field.description} Default: {_default(field.default)}."
            other = "SECONDS" if key.endswith("_seconds") else "N"
            more: dict[str, Any] = {"metavar": _METAVARS.get(key, other)}
            if field.annotation is bool:
                more = {"metavar": "true|false", "nargs": "?", "const": "true"}
            flags = [flag_of(key), *([_ALSO[key]] if key in _ALSO else [])]
            section.add_argument(
                *flags, dest=key, help=help_text.replace("`", "").replace("%", "%%"), **more
            )
    known, unknown = parser.parse_known_args(list(arguments))
    if unknown:
        name = next((one for one in unknown if one.startswith("-")), unknown[0]).partition("=")[0]
        near = near_option(name.lstrip("-")) if name.startswith("--") else None
        hint = f"; is {flag_of(near)} meant?" if near else ""
        what = "no such option" if name.startswith("-") else "not an option"
        parser.error(f"{name[:100]!r}: {what}{hint}")
    found = vars(known)
    config_file = found.pop("config", None)
    return found, config_file


class _Formatter(argparse.HelpFormatter):
    """Room for an option's name and what it does beside it, where the terminal is wide."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=shutil.get_terminal_size().columns // 3)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def _group(field: FieldInfo) -> str:
    extra = field.json_schema_extra
    assert isinstance(extra, dict)
    return str(extra["group"])


def _default(value: Any) -> str:
    if value is None or value in ([], {}):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, list):
        return f"`{','.join(map(str, value))}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


if __name__ == "__main__":
    PAGE.write_text(markdown(), "utf-8")
    sys.stdout.write(f"{PAGE}\n")
