"""The rules and the Alertmanager example as the YAML that is committed."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

import yaml

from agent.export.handwritten import DOCS, with_table
from alerts.inhibitions import INHIBITIONS
from alerts.rules import ALERTS, RECORDINGS
from dashboards.links import ALERT_RUNBOOKS, runbook

if TYPE_CHECKING:
    from alerts.model import Alert, Severity, Subject

DIRECTORY: Final = Path(__file__).resolve().parent / "generated"
PAGE: Final = DOCS / "alerts.md"
RULES: Final = "weir.rules.yml"
ALERTMANAGER: Final = "alertmanager.example.yml"
#: How often alerts are judged: as often as is scraped where somebody is to be woken.
INTERVAL: Final = "15s"
#: In a group: Mimir refuses one of more (ruler.max-rules-per-rule-group), and all that is in it.
MOST_RULES: Final = 20
_HEADER: Final = "# Written by `python -m alerts`; edit alerts/*.py.\n"

#: Which labels of an alert choose what its dashboard shows, where it has them: two clusters may
#: have queries of one name.
_ANY: Final = ("cluster", "namespace")
_CHOICES: Final[dict[Subject, tuple[str, ...]]] = {
    "query": ("application", "query", *_ANY),
    "application": _ANY,
    "agent": ("instance", *_ANY),
}

_WHO: Final[dict[Subject, str]] = {
    "query": "A query",
    "application": "A driver",
    "agent": "The agent",
}
#: Of docs/alerts.md: by the line over each, which severities stand in it.
_TABLES: Final[dict[str, tuple[Severity, ...]]] = {
    "`python -m alerts`, of those that page; edit alerts/rules.py": ("critical",),
    "`python -m alerts`, of all others; edit alerts/rules.py": ("warning", "info"),
}


def dashboard_path(alert: Alert) -> str:
    """Where in Grafana the alert's subject is shown, from the server's root on.

    A cluster may be told by Prometheus alone, which puts its external labels on an alert only as it
    sends it: a Grafana over several of them shows all the same.
    """
    choices = (
        f"{{{{ with {_told(label)} }}}}&var-{label}={{{{ . | urlquery }}}}{{{{ end }}}}"
        for label in _CHOICES[alert.subject]
    )
    return f"/d/{alert.dashboard}?{''.join(choices)}"


def _told(label: str) -> str:
    return f"or $labels.{label} $externalLabels.{label}" if label in _ANY else f"$labels.{label}"


def rules(
    runbooks: str = ALERT_RUNBOOKS, *, keep: str | None = None, interval: str = INTERVAL
) -> str:
    """The Prometheus rule file; the reason of each rule stands over it.

    ``keep`` is how long what is kept is kept, in place of each alert's own; ``interval``, how often
    alerts are judged.
    """
    lines = [_HEADER, "groups:\n", "- name: weir-recordings\n", "  rules:\n"]
    lines += [
        _item({"record": recording.name, "expr": recording.expression}, recording.why)
        for recording in RECORDINGS
    ]
    for number, alert in enumerate(ALERTS):
        group, place = divmod(number, MOST_RULES)
        if place == 0:
            # Prometheus's default is a minute, which an agent's death would wait for on top.
            lines += [f"- name: weir-alerts-{group + 1}\n", f"  interval: {interval}\n"]
            lines.append("  rules:\n")
        rule: dict[str, Any] = {"alert": alert.name, "expr": alert.expression}
        if alert.hold != "0s":
            rule["for"] = alert.hold
        if alert.keep != "0s":
            rule["keep_firing_for"] = keep or alert.keep
        rule["labels"] = {"severity": alert.severity, "component": "weir"}
        rule["annotations"] = {
            "summary": alert.summary,
            "description": alert.description,
            "runbook_url": runbook(alert.name, runbooks),
            "dashboard_path": dashboard_path(alert),
        }
        lines.append(_item(rule, alert.why))
    return "".join(lines)


def alertmanager() -> str:
    """An Alertmanager configuration to take the routes and inhibitions from."""
    routes = [
        {
            "matchers": ['severity="critical"'],
            "receiver": "page",
            # One outage of a store or a broker takes many applications with it: one message.
            "group_by": ["alertname", "cluster", "namespace"],
            "repeat_interval": "1h",
        },
        {"matchers": ['severity="warning"'], "receiver": "day", "repeat_interval": "12h"},
        {"matchers": ['severity="info"'], "receiver": "log", "repeat_interval": "3d"},
    ]
    # On Weir's own route, so that it can be hung into a tree whose root groups otherwise.
    weir = {
        "matchers": ['component="weir"'],
        "receiver": "day",
        "group_by": ["alertname", "cluster", "namespace", "application"],
        "group_wait": "30s",
        "group_interval": "5m",
        "repeat_interval": "12h",
        "routes": routes,
    }
    route = {"receiver": "day", "routes": [weir]}
    receivers = [
        {"name": name, "webhook_configs": [{"url": f"http://127.0.0.1:9099/{name}"}]}
        for name in ("page", "day", "log")
    ]
    lines = [
        _HEADER,
        "# An example: put your own receivers in place of the web hooks; keep the inhibitions.\n",
        _plain({"route": route, "receivers": receivers}),
        "inhibit_rules:\n",
    ]
    for one in INHIBITIONS:
        written = {
            "source_matchers": [_any_of(one.sources)],
            "target_matchers": [_any_of(one.targets)],
            "equal": list(one.equal),
        }
        lines.append(_item(written, one.why, indent=""))
    return "".join(lines)


def page(current: str) -> str:
    """docs/alerts.md with its tables made anew: of those that page, and of all others.

    Raises ValueError where it has no place for one.
    """
    for written, severities in _TABLES.items():
        rows = [
            (
                f"[{alert.name}](../agent/export/runbooks/{alert.name}.md)",
                alert.severity,
                f"{_WHO[alert.subject]}: {alert.says}",
                "at once" if alert.hold == "0s" else alert.hold,
            )
            for alert in ALERTS
            if alert.severity in severities
        ]
        current = with_table(current, written, ("alert", "severity", "says", "for"), rows)
    return current


def files(runbooks: str = ALERT_RUNBOOKS) -> dict[str, str]:
    """Content by file name."""
    return {RULES: rules(runbooks), ALERTMANAGER: alertmanager()}


def write(directory: Path = DIRECTORY, runbooks: str = ALERT_RUNBOOKS) -> list[Path]:
    """Writes every file."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files(runbooks).items():
        (directory / name).write_text(text, encoding="utf-8")
    return [directory / name for name in files(runbooks)]


def write_page(path: Path = PAGE) -> None:
    """Renews the table of docs/alerts.md; an installed Weir has none."""
    if path.exists():
        path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")


def _any_of(names: tuple[str, ...]) -> str:
    return f'alertname=~"{"|".join(names)}"'


def _item(content: dict[str, Any], why: str, indent: str = "  ") -> str:
    """A list item with its reason as a comment over it."""
    comment = "".join(f"{indent}# {line}\n" for line in wrap(why, 92))
    first, *others = _plain(content).splitlines(keepends=True)
    return comment + f"{indent}- {first}" + "".join(f"{indent}  {line}" for line in others)


def _plain(content: dict[str, Any]) -> str:
    return yaml.safe_dump(content, sort_keys=False, width=1000, allow_unicode=True)
