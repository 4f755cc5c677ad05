"""What all dashboards share: variables, links between them, time range, and how they are built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models import dashboard as models

from dashboards import links
from dashboards.panels import RED, SOURCE
from dashboards.promql import FIXED, Scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grafana_foundation_sdk.cog.builder import Builder

TAG: Final = "weir"
#: What is chosen, as matchers of a query.
_CHOSEN: Final = ",".join(f'{label}=~"${label}"' for label in FIXED)
#: On these one query is chosen, and "All" of another board would be its name.
_OF_ONE: Final = frozenset({links.QUERY, links.CHECKPOINTS})
#: What is handed on to them by name, where all of what is chosen is too much.
_WHERE: Final = "?" + "&".join(f"${{{name}:queryparam}}" for name in ("datasource", *FIXED))


def frame(uid: str, title: str, description: str) -> builders.Dashboard:
    """An empty dashboard with the variables and links that all have."""
    board = (
        builders.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([TAG])
        .timezone("browser")
        .time("now-1h", "now")
        .refresh("30s")
        .editable()
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .with_variable(
            builders.DatasourceVariable("datasource").label("Data source").type("prometheus")
        )
    )
    for label in FIXED:
        board.with_variable(_all_of(label, f"label_values(weir_build_info, {label})"))
    board.with_variable(_runbooks_at())
    return board.links(
        [
            _to("Overview", links.OVERVIEW, uid),
            _to("Query", links.QUERY, uid),
            _to("Checkpoints & state", links.CHECKPOINTS, uid),
            _to("Agent", links.AGENT, uid),
        ]
    )


def annotate(
    board: builders.Dashboard, of: Scope | None, *, decisions: bool = False
) -> builders.Dashboard:
    """Marks over all graphs: alerts while they fire, and what moved a limit.

    ``of``: whose alerts; None: those of agents and applications, which name no query.
    """
    whose = 'query=""' if of is None else of.matchers("application", "query")
    board.annotation(
        _marks("Alerts", RED)
        .expr(f'ALERTS{{component="weir",alertstate="firing",{_CHOSEN},{whose}}}')
        .step("60s")
        .title_format("{{alertname}}")
        .text_format("{{severity}}: {{cluster}} {{namespace}} {{application}} {{query}}")
        .tag_keys("severity")
    )
    if decisions and of is not None:
        step = "120s"
        moved = of("weir_grants_total", matchers='reason!~"hold:.*|mode:.*|renew"')
        whose_query = "cluster, namespace, application, query, instance"
        watched = f"{of('weir_query_up')} offset {step}"
        board.annotation(
            _marks("Decisions", "blue")
            # What came since the step before, so that each decision is one mark: a range holds no
            # rise between its ends and the scrapes beside them, or, made longer, counts it twice.
            # A reason that had no series yet came first in it, where its query had been watched.
            .expr(
                f"sum by (application, query, reason) ({moved} - {moved} offset {step} or {moved} "
                f"and on ({whose_query}) {watched} unless {moved} offset {step}) > 0"
            )
            .step(step)
            .title_format("Limit: {{reason}}")
            .text_format("{{application}} {{query}}")
            .tag_keys("reason")
        )
    return board


def choose_many(board: builders.Dashboard) -> builders.Dashboard:
    """Variables for any number of applications and queries."""
    return board.with_variable(
        _all_of("application", f"label_values(weir_query_up{{{_CHOSEN}}}, application)")
    ).with_variable(
        _all_of(
            "query",
            f'label_values(weir_query_up{{{_CHOSEN},application=~"$application"}}, query)',
        )
    )


def choose_agents(board: builders.Dashboard) -> builders.Dashboard:
    """A variable for any number of agents, by the address at which they are scraped."""
    return board.with_variable(
        _all_of("instance", f"label_values(weir_build_info{{{_CHOSEN}}}, instance)").label("Agent")
    )


def choose_one(board: builders.Dashboard) -> builders.Dashboard:
    """Variables for one application and one of its queries."""
    return board.with_variable(
        _one_of("application", f"label_values(weir_query_up{{{_CHOSEN}}}, application)")
    ).with_variable(
        _one_of(
            "query",
            f'label_values(weir_query_up{{{_CHOSEN},application="$application"}}, query)',
        )
    )


def lay_out(
    board: builders.Dashboard,
    *rows: tuple[str, Sequence[Builder[models.Panel]]],
    folded: tuple[str, Sequence[Builder[models.Panel]]] | None = None,
) -> models.Dashboard:
    """Puts rows of panels on the board, in order, and numbers the panels from 1.

    ``folded`` comes last, closed: for what most queries have no figures of.
    """
    for title, panels in rows:
        board.with_row(builders.Row(title))
        for panel in panels:
            board.with_panel(panel)
    if folded is not None:
        title, panels = folded
        row = builders.Row(title).collapsed(True)
        for panel in panels:
            row.with_panel(panel)
        board.with_row(row)
    built = board.build()
    placed = [
        one
        for shown in built.panels or []
        for one in (shown, *(shown.panels if isinstance(shown, models.RowPanel) else ()))
    ]
    for number, one in enumerate(placed, start=1):
        one.id_val = number
    return built


def _marks(name: str, colour: str) -> builders.AnnotationQuery:
    return builders.AnnotationQuery().name(name).datasource(SOURCE).icon_color(colour).enable(True)


def _runbooks_at() -> builders.QueryVariable:
    """Where an agent answers as of now: one that was in the shown time may be gone."""
    variable = (
        _one_of(links.RUNBOOKS_AT, f"query_result(topk(1, weir_build_info{{{_CHOSEN}}}))")
        .regex('/[{,]instance="([^"]+)"/')
        # Asked as of the time range's end otherwise, which may be past.
        .refresh(models.VariableRefresh.ON_DASHBOARD_LOAD)
        .hide(models.VariableHide.HIDE_VARIABLE)
    )
    # Nor is it handed on by an address, old as that may be. Its builder has no word for that.
    variable.build().skip_url_sync = True
    return variable


def _all_of(name: str, query: str) -> builders.QueryVariable:
    return (
        _one_of(name, query)
        .multi(True)
        .include_all(True)
        # Not the list of all values: a series without the label belongs to "all" too.
        .all_value(".*")
        .current(models.VariableOption(selected=True, text=["All"], value=["$__all"]))
    )


def _one_of(name: str, query: str) -> builders.QueryVariable:
    return (
        builders.QueryVariable(name)
        .label(name.capitalize())
        .datasource(SOURCE)
        .query({"query": query, "refId": name})
        .definition(query)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_CASE_INSENSITIVE_ASC)
    )


def _to(title: str, uid: str, here: str) -> builders.DashboardLink:
    """To a board with what is chosen here; of one query, where any number may be, without which."""
    all_of_it = here in _OF_ONE or uid not in _OF_ONE
    return (
        builders.DashboardLink(title)
        .type(models.DashboardLinkType.LINK)
        .url(f"/d/{uid}" + ("" if all_of_it else _WHERE))
        .icon("dashboard")
        .tooltip(f"Weir: {title}")
        .tags([])
        .include_vars(all_of_it)
        .keep_time(True)
        .target_blank(False)
    )
