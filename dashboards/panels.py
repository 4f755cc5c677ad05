"""The few kinds of panel that the dashboards are made of, each always with a description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import heatmap as heatmap_builders
from grafana_foundation_sdk.builders import prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.models import common, heatmap
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCE: Final = common.DataSourceRef(type_val="prometheus", uid="${datasource}")
GRAPH_HEIGHT: Final = 8
STAT_HEIGHT: Final = 4

Unit = Literal["s", "bytes", "percentunit", "rowsps", "short", "cps", "none", "dateTimeFromNow"]
Query = tuple[str, str]  # (PromQL, legend)
#: (from this value on, colour); the first one holds from below.
Steps = tuple[tuple[float | None, str], ...]

#: (text, colour) in place of a value.
Texts = Mapping[str, tuple[str, str]]

GREEN: Final = "green"
YELLOW: Final = "yellow"
RED: Final = "red"
#: The theme's own colour of text: neither good nor bad.
NEUTRAL: Final = "text"
#: What 0 and 1 mean where a metric answers a question.
NO_OR_YES: Final[Texts] = {"0": ("no", RED), "1": ("yes", GREEN)}
#: What the states are drawn in, the same everywhere.
STATE_COLOURS: Final = {
    "idle": "blue",
    "busy": "green",
    "backpressured": "orange",
    "stalled": "red",
    "terminated": "gray",
}
#: The same for the way into a spiral, and for what the backlog does.
SPIRAL_COLOURS: Final = {
    "none": "green",
    "pressured": "yellow",
    "spiralling": "orange",
    "timing_out": "red",
    "dead": "dark-red",
}
MODE_COLOURS: Final = {"off": "gray", "dry-run": "blue", "on": "green"}
#: For seconds in which something will never be.
NEVER: Final[Texts] = {"-1": ("never", RED)}
LAG_COLOURS: Final = {
    "OK": "green",
    "WARN": "yellow",
    "ERR": "orange",
    "STOP": "red",
    "STALL": "red",
    "REWIND": "purple",
    "UNKNOWN": "gray",
}


def graph(
    title: str,
    description: str,
    *queries: Query,
    unit: Unit,
    span: int = 12,
    stacked: bool = False,
    colours: Mapping[str, str] | None = None,
    thresholds: Steps | None = None,
    dashed: Sequence[str] = (),
    links: Sequence[builders.DashboardLink] = (),
    maximum: float | None = None,
    none: str | None = None,
) -> timeseries.Panel:
    """Lines over time, from zero; ``dashed`` names series that are bounds, not measurements.

    ``none`` is what a panel without a line says, where "no data" would look like a fault.
    """
    panel = (
        timeseries.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .span(span)
        .height(GRAPH_HEIGHT)
        .unit(unit)
        .min(0)
        .line_width(1)
        .fill_opacity(40 if stacked else 8)
        .show_points(common.VisibilityMode.NEVER)
        .legend(
            common_builders.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.TABLE)
            .placement(common.LegendPlacement.BOTTOM)
            .show_legend(True)
            .calcs(["lastNotNull", "max"])
        )
        .tooltip(
            common_builders.VizTooltipOptions()
            .mode(common.TooltipDisplayMode.MULTI)
            .sort(common.SortOrder.DESCENDING)
        )
        .links(list(links))
    )
    for query in _queries(queries):
        panel.with_target(query)
    if stacked:
        panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL).group("A"))
    if maximum is not None:
        panel.max(maximum)
    if none is not None:
        panel.no_value(none)
    if thresholds is not None:
        panel.thresholds(_thresholds(thresholds))
        panel.thresholds_style(
            common_builders.GraphThresholdsStyleConfig().mode(
                common.GraphThresholdsStyleMode.DASHED
            )
        )
    for name in dashed:
        panel.override_by_name(
            name,
            [
                models.DynamicConfigValue(
                    id_val="custom.lineStyle", value={"fill": "dash", "dash": [8, 6]}
                ),
                models.DynamicConfigValue(id_val="custom.fillOpacity", value=0),
            ],
        )
    for name, colour in (colours or {}).items():
        panel.override_by_name(name, [_fixed_colour(colour)])
    return panel


def number(
    title: str,
    description: str,
    expression: str,
    *,
    unit: Unit = "none",
    span: int = 4,
    thresholds: Steps = ((None, GREEN),),
    links: Sequence[builders.DashboardLink] = (),
    none: str = "unknown",
    decimals: int | None = None,
    texts: Texts | None = None,
) -> stat.Panel:
    """The value of this moment, large, its colour by thresholds; ``texts`` in place of values.

    It is asked for as of now and never taken from a range: the newest value of a range may be the
    last good one of a query that has long been gone. ``none`` stands where there is no value, in a
    colour that says neither good nor bad.
    """
    missing = models.SpecialValueMap(
        options=models.DashboardSpecialValueMapOptions(
            match=models.SpecialValueMatch.NULL_AND_NAN,
            result=models.ValueMappingResult(text=none, color=NEUTRAL, index=0),
        )
    )
    panel = (
        stat.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .span(span)
        .height(STAT_HEIGHT)
        .unit(unit)
        .no_value(none)
        .thresholds(_thresholds(thresholds))
        .color_mode(common.BigValueColorMode.VALUE)
        .graph_mode(common.BigValueGraphMode.NONE)
        .reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
        .links(list(links))
    )
    panel.with_target(_queries([(expression, title)])[0].instant())
    panel.mappings([missing, *([] if texts is None else [_texts(texts, 1)])])
    return panel if decimals is None else panel.decimals(decimals)


def spread(
    title: str,
    description: str,
    histogram: str,
    *,
    unit: Unit,
    span: int = 12,
    links: Sequence[builders.DashboardLink] = (),
) -> heatmap_builders.Panel:
    """How values spread over the buckets of a histogram, over time; ``histogram`` is by ``le``."""
    return (
        heatmap_builders.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .span(span)
        .height(GRAPH_HEIGHT)
        .unit(unit)
        .calculate(False)
        .cell_gap(1)
        .color(
            heatmap_builders.HeatmapColorOptions()
            .mode(heatmap.HeatmapColorMode.SCHEME)
            .scheme("Oranges")
            .steps(32)
        )
        .y_axis(heatmap_builders.YAxisConfig().unit(unit))
        .show_legend()
        .links(list(links))
        .with_target(_queries([(histogram, "{{le}}")])[0].format(PromQueryFormat.HEATMAP))
    )


def states(
    title: str,
    description: str,
    *queries: Query,
    colours: Mapping[str, str],
    span: int = 24,
    links: Sequence[builders.DashboardLink] = (),
) -> statetimeline.Panel:
    """State sets over time: a row for each state, coloured while it is the present one."""
    panel = (
        statetimeline.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .span(span)
        .height(6)
        .show_value(common.VisibilityMode.NEVER)
        .merge_values(True)
        .row_height(0.9)
        .mappings(
            [
                models.ValueMap(
                    options={
                        "0": models.ValueMappingResult(text="no", color="transparent", index=0),
                        "1": models.ValueMappingResult(text="yes", index=1),
                    }
                )
            ]
        )
        .legend(
            common_builders.VizLegendOptions()
            .show_legend(False)
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
            .calcs([])
        )
        .links(list(links))
    )
    for query in _queries(queries):
        panel.with_target(query)
    for name, colour in colours.items():
        panel.override_by_name(name, [_fixed_colour(colour)])
    return panel


class Column:
    """A column of a table: what stands over it, its PromQL, and how it is shown."""

    def __init__(
        self,
        title: str,
        expression: str,
        unit: Unit = "none",
        *,
        thresholds: Steps | None = None,
        texts: Texts | None = None,
        ranges: Sequence[tuple[float, str, str]] = (),
        decimals: int | None = None,
    ) -> None:
        """``texts`` gives (text, colour) for values such as ``"1"``.

        ``ranges`` gives (from this value on, text, colour), rising; the table sorts by the value.
        """
        self.title = title
        self.expression = expression
        self.unit = unit
        self.thresholds = thresholds
        self.texts = texts
        self.ranges = ranges
        self.decimals = decimals


def rows_of(
    title: str,
    description: str,
    keys: Sequence[str],
    columns: Sequence[Column],
    *,
    worst_first: str,
    link: tuple[str, str, str] | None = None,
    height: int = 12,
    span: int = 24,
    hidden: Sequence[str] = (),
    none: str | None = None,
) -> table.Panel:
    """A table with a row for each set of ``keys``, sorted by one column, descending.

    A key that not all of the columns' expressions have does not tell rows apart. ``link`` is
    (column that carries it, title, address); keys that are ``hidden`` are there for it alone.
    ``none`` is what a table without a row says.
    """
    panel = (
        table.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .span(span)
        .height(height)
        .filterable(True)
        .sort_by([common_builders.TableSortByFieldState().display_name(worst_first).desc(True)])
    )
    names: dict[str, str] = {}
    order: dict[str, int] = {key: place for place, key in enumerate(keys)}
    for place, column in enumerate(columns):
        ref = chr(ord("A") + place)
        panel.with_target(
            prometheus.Dataquery()
            .expr(column.expression)
            .ref_id(ref)
            .instant()
            .format(PromQueryFormat.TABLE)
            .datasource(SOURCE)
        )
        # As Grafana calls it; where there is one, without its reference.
        value = f"Value #{ref}" if len(columns) > 1 else "Value"
        names[value] = column.title
        order[value] = len(keys) + place
        panel.override_by_name(column.title, _column_properties(column))
    panel.with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
    panel.with_transformation(
        models.DataTransformerConfig(
            id_val="organize",
            options={
                "excludeByName": {"Time": True},
                "indexByName": order,
                "renameByName": names,
            },
        )
    )
    for name in hidden:
        unseen = models.DynamicConfigValue(id_val="custom.hidden", value=True)
        panel.override_by_name(name, [unseen])
    if none is not None:
        panel.no_value(none)
    if link is not None:
        name, text, url = link
        panel.override_by_name(
            name,
            [models.DynamicConfigValue(id_val="links", value=[{"title": text, "url": url}])],
        )
    return panel


def link(title: str, url: str) -> builders.DashboardLink:
    """A link in a panel's corner."""
    return (
        builders.DashboardLink(title)
        .type(models.DashboardLinkType.LINK)
        .url(url)
        .target_blank(True)
        .icon("")
        .tooltip("")
        .tags([])
    )


def _column_properties(column: Column) -> list[models.DynamicConfigValue]:
    properties = [models.DynamicConfigValue(id_val="unit", value=column.unit)]
    if column.decimals is not None:
        properties.append(models.DynamicConfigValue(id_val="decimals", value=column.decimals))
    if column.thresholds is not None:
        properties += [
            models.DynamicConfigValue(
                id_val="thresholds", value=_thresholds(column.thresholds).build()
            ),
            models.DynamicConfigValue(id_val="custom.cellOptions", value={"type": "color-text"}),
        ]
    if column.texts is not None:
        properties += [
            models.DynamicConfigValue(id_val="mappings", value=[_texts(column.texts)]),
            models.DynamicConfigValue(id_val="custom.cellOptions", value={"type": "color-text"}),
        ]
    if column.ranges:
        ends = [start for start, _, _ in column.ranges[1:]] + [None]
        ranges = list(zip(column.ranges, ends, strict=True))
        # Grafana takes the first that fits, both ends included: an end belongs to what it begins.
        properties += [
            models.DynamicConfigValue(
                id_val="mappings",
                value=[
                    models.RangeMap(
                        options=models.DashboardRangeMapOptions(
                            from_val=start,
                            to=end,
                            result=models.ValueMappingResult(text=text, color=colour, index=place),
                        )
                    )
                    for place, ((start, text, colour), end) in enumerate(reversed(ranges))
                ],
            ),
            models.DynamicConfigValue(id_val="custom.cellOptions", value={"type": "color-text"}),
        ]
    return properties


def _texts(texts: Texts, first: int = 0) -> models.ValueMap:
    """A mapping from values to texts; ``first`` is its place among the panel's mappings."""
    return models.ValueMap(
        options={
            value: models.ValueMappingResult(text=text, color=colour, index=index)
            for index, (value, (text, colour)) in enumerate(texts.items(), start=first)
        }
    )


def _queries(queries: Sequence[Query]) -> list[prometheus.Dataquery]:
    return [
        prometheus.Dataquery()
        .expr(expression)
        .legend_format(legend)
        .ref_id(chr(ord("A") + place))
        .range()
        .datasource(SOURCE)
        for place, (expression, legend) in enumerate(queries)
    ]


def _thresholds(steps: Steps) -> builders.ThresholdsConfig:
    return (
        builders.ThresholdsConfig()
        .mode(models.ThresholdsMode.ABSOLUTE)
        .steps([models.Threshold(value=value, color=colour) for value, colour in steps])
    )


def _fixed_colour(colour: str) -> models.DynamicConfigValue:
    return models.DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": colour})
