"""Options of a source under which a limit does more than say which rows come in which batch.

It changes which are read, or leaves some waiting while nothing runs. Such a source is not steered
unless the agent's owner says so (``give_limits``). What cannot be read counts as unsafe: a limit
that comes too late costs a long batch, one too many costs rows.
``docs/driver.md`` has the table of all options that were looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from spark_listener.complaints import no_answer
from spark_listener.iceberg import field_of, from_milliseconds
from spark_listener.sources import FileOptions, Options, TableOptions, known

if TYPE_CHECKING:
    from spark_listener.limits import Limit

#: The release of Iceberg that brought the option to plan ahead.
_PLANS_AHEAD_FROM: Final = (1, 11)
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


def options_of(
    source: Any, source_class: str, trigger: str, release: tuple[int, int] | None
) -> Options | None:
    """What of a JVM source's options couples to its limit; None where nothing does, or is told.

    ``release``: the source's own, None where unknown. Raises what py4j raises where the JVM did
    not answer, of which the options tell nothing: to be asked again.
    """
    one = known(source_class)
    if one.files:
        return file_options(source)
    return table_options(source, trigger, release) if one.table == "iceberg" else None


def table_options(
    source: Any, trigger: str, release: tuple[int, int] | None
) -> TableOptions | None:
    """A JVM ``SparkMicroBatchStream``'s options; None where this Iceberg does not show them.

    Raises as ``options_of`` does.
    """
    try:
        return TableOptions(
            plans_ahead=_plans_ahead(source, release),
            available_now="AvailableNow" in trigger,
            from_a_time=from_milliseconds(source) is not None,
        )
    except Exception as error:
        if no_answer(error):
            raise
        return None


def _plans_ahead(source: Any, release: tuple[int, int] | None) -> bool:
    try:
        conf = field_of(source, "readConf")
    except LookupError:
        if release is None or release >= _PLANS_AHEAD_FROM:
            raise
        return False  # there is no such option, and no such field
    return bool(conf.asyncMicroBatchPlanningEnabled())


def file_options(source: Any) -> FileOptions | None:
    """A JVM ``FileStreamSource``'s options; None where this Spark does not show them."""
    try:
        options = field_of(source, "sourceOptions")
        return FileOptions(
            latest_first=bool(options.latestFirst()), file_name_only=bool(options.fileNameOnly())
        )
    except Exception as error:
        if no_answer(error):
            raise
        return None
