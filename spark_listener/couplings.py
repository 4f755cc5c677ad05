"""Options of a source under which a limit does more than say which rows come in which batch.

It changes which are read, or leaves some waiting while nothing runs. Such a source is not steered
unless the agent's owner says so (``give_limits``). What cannot be read counts as unsafe: a limit
that comes too late costs a long batch, one too many costs rows.
``docs/driver.md`` has the table of all options that were looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from spark_listener.sources import FileOptions, known

if TYPE_CHECKING:
    from spark_listener.limits import Limit

_WAY_OUT: Final = "; weir agent --give-limits all steers it"


def why_unsafe(configured: Limit, source_class: str, files: FileOptions | None) -> str:
    """Why a limit of ours may cost rows or time, the option first; "" where it does not.

    It ends with what its owner can do. ``files`` are a file source's options, None where they could
    not be read.
    """
    kinds = frozenset((configured.kind, *(part.kind for part in configured.parts)))
    option = known(source_class).couples(kinds, files)
    return option and option + _WAY_OUT


def file_options(source: Any) -> FileOptions | None:
    """A JVM ``FileStreamSource``'s options; None where this Spark does not show them."""
    try:
        found = source.getClass().getDeclaredField("sourceOptions")
        found.setAccessible(True)
        options = found.get(source)
        return FileOptions(
            latest_first=bool(options.latestFirst()), file_name_only=bool(options.fileNameOnly())
        )
    except Exception:
        return None
