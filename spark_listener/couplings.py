"""Options of a source under which a limit does more than say which rows come in which batch.

It changes which are read, or leaves some waiting while nothing runs. Such a source is not steered
unless the agent's owner says so (``give_limits``). What cannot be read counts as unsafe: a limit
that comes too late costs a long batch, one too many costs rows.
``docs/driver.md`` has the table of all options that were looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from spark_listener.iceberg import field_of, from_milliseconds
from spark_listener.sources import FileOptions, Options, TableOptions, known

if TYPE_CHECKING:
    from spark_listener.limits import Limit

_WAY_OUT: Final = "; weir agent --give-limits all steers it"


def why_unsafe(configured: Limit, source_class: str, options: Options | None) -> str:
    """Why a limit of ours may cost rows or time, the option first; "" where it does not.

    It ends with what its owner can do. ``options``: as ``options_of`` has them.
    """
    kinds = frozenset((configured.kind, *(part.kind for part in configured.parts)))
    option = known(source_class).couples(kinds, options)
    return option and option + _WAY_OUT


def reads_newest_first(source_class: str, options: Options | None) -> bool:
    """Whether rows that came later may come in an earlier batch; so, too, where nobody knows."""
    if not known(source_class).files:
        return False
    return not isinstance(options, FileOptions) or options.latest_first


def options_of(source: Any, source_class: str, trigger: str) -> Options | None:
    """What of a JVM source's options couples to its limit; None where nothing does, or is told."""
    one = known(source_class)
    if one.files:
        return file_options(source)
    return table_options(source, trigger) if one.table == "iceberg" else None


def table_options(source: Any, trigger: str) -> TableOptions:
    """A JVM ``SparkMicroBatchStream``'s options; one that its release does not show is not set."""
    return TableOptions(
        plans_ahead=_plans_ahead(source),  # there is no such option before Iceberg 1.11
        available_now="AvailableNow" in trigger,
        from_a_time=_reads_from_a_time(source),
    )


def _plans_ahead(source: Any) -> bool:
    try:
        return bool(field_of(source, "readConf").asyncMicroBatchPlanningEnabled())
    except Exception:
        return False


def _reads_from_a_time(source: Any) -> bool:
    try:
        return from_milliseconds(source) is not None
    except Exception:
        return False


def file_options(source: Any) -> FileOptions | None:
    """A JVM ``FileStreamSource``'s options; None where this Spark does not show them."""
    try:
        options = field_of(source, "sourceOptions")
        return FileOptions(
            latest_first=bool(options.latestFirst()), file_name_only=bool(options.fileNameOnly())
        )
    except Exception:
        return None
