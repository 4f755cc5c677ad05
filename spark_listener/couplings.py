"""Options of a source under which a limit changes which rows are read, not only when.

Such a source is not steered unless the agent's owner says so (``give_limits``). What cannot be read
counts as unsafe: a limit that comes too late costs a long batch, one too many costs rows.
``docs/driver.md`` has the table of all options that were looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spark_listener.limits import FILE_CLASSES, ICEBERG_CLASS, KAFKA_CLASS

if TYPE_CHECKING:
    from spark_listener.limits import Limit

LATEST_FIRST: Final = (
    "latestFirst: with a limit that the job did not set, Spark forgets files older than maxFileAge"
)
FILE_NAME_ONLY: Final = (
    "fileNameOnly: how many files of one name are read depends on how batches are cut"
)
MINIMUM_ONCE: Final = (
    "minOffsetsPerTrigger: under AvailableNow a run ends once fewer rows than that are left unread"
)
ICEBERG_ROWS: Final = (
    "streaming-max-rows-per-micro-batch: some versions of Iceberg stop for good before a file "
    "of more rows"
)
UNREADABLE: Final = "its options cannot be read, so nobody knows that a limit loses no rows"
_WAY_OUT: Final = "; weir agent --give-limits all steers it"


@dataclass(frozen=True)
class FileOptions:
    """What of a file source's options couples to its limit."""

    latest_first: bool
    file_name_only: bool


def why_unsafe(
    configured: Limit, source_class: str, trigger: str, files: FileOptions | None
) -> str:
    """Why a limit of ours may change which rows are read, the option first; "" where it does not.

    It ends with what its owner can do. ``files`` are a file source's options, None where they could
    not be read. ``trigger`` is the text of Spark's trigger.
    """
    option = _option(configured, source_class, trigger, files)
    return option and option + _WAY_OUT


def _option(configured: Limit, source_class: str, trigger: str, files: FileOptions | None) -> str:
    kinds = {configured.kind, *(part.kind for part in configured.parts)}
    if source_class in FILE_CLASSES:
        if files is None:
            return UNREADABLE
        # A configured limit makes Spark ignore maxFileAge from the start; in Spark 3.5, which
        # knows no maxBytesPerTrigger, such an option alone is no limit.
        if files.latest_first and configured.kind == "all":
            return LATEST_FIRST
        if files.file_name_only:
            return FILE_NAME_ONLY
    if source_class == KAFKA_CLASS and "min_rows" in kinds and "AvailableNow" in trigger:
        return MINIMUM_ONCE
    if source_class == ICEBERG_CLASS and "files" not in kinds and "rows" in kinds:
        return ICEBERG_ROWS
    return ""


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
