"""Reads the agent's reply. An agent may lie: whatever does not fit the contract is left out."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from spark_listener.wire import LONGEST_LIFE_SECONDS, UNITS, Unit

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeGuard

MAX_REPLY_BYTES: Final = 4 * 1024 * 1024
_LARGEST: Final = 2**63 - 1
#: What Spark's own parameter holds.
_MOST_EXECUTORS: Final = 2**31 - 1


@dataclass(frozen=True)
class Grant:
    """What one source of one run may admit to each next micro-batch; see ``wire.Grant``."""

    run_id: str
    source: int
    unit: Unit
    limit: int | None  # None: no limit beyond the configured one
    expires_seconds: float
    reason: str
    identity: str = ""  # of the source that is meant; empty where the agent does not know it
    lapses: bool = False  # after its life, even where nothing is configured


@dataclass(frozen=True)
class ExecutorsOrder:
    """How many executors the application should have; None: as many as without Weir."""

    wanted: int | None
    expires_seconds: float


@dataclass(frozen=True)
class Reply:
    """The agent's answer to one request."""

    acknowledged: int
    grants: tuple[Grant, ...]
    rejected: tuple[str, ...]  # what the agent said of each event it refused
    #: By run id: whether sources may be steered although an option makes a limit unsafe.
    unsafe_limits: Mapping[str, bool] = field(default_factory=dict)
    executors: ExecutorsOrder | None = None  # None: nothing is said of them


class BadReply(ValueError):  # noqa: N818
    """What answered does not speak the agent's language; the message says how."""


def parse_reply(data: bytes) -> Reply:
    """The reply in ``data``; a grant that makes no sense is left out, the others are kept.

    Raises BadReply where the whole is no reply.
    """
    try:
        reply = json.loads(data)
    except (ValueError, RecursionError):
        raise BadReply(f"the reply is not JSON: {data[:60]!r}") from None
    if not isinstance(reply, dict):
        raise BadReply("the reply is not a JSON object")
    acknowledged = reply.get("acknowledged")
    if not _whole(acknowledged) or acknowledged < 0:
        raise BadReply("the reply has no number 'acknowledged'")
    grants = reply.get("grants", [])
    rejected = reply.get("rejected", [])
    if not isinstance(grants, list) or not isinstance(rejected, list):
        raise BadReply("'grants' or 'rejected' of the reply is not a list")
    return Reply(
        acknowledged=acknowledged,
        grants=tuple(grant for item in grants if (grant := _grant(item)) is not None),
        rejected=tuple(_complaint(item) for item in rejected),
        unsafe_limits=_truths(reply.get("unsafe_limits")),
        executors=_executors(reply.get("executors")),
    )


def _truths(said: Any) -> dict[str, bool]:
    if not isinstance(said, dict):
        return {}
    return {run_id: value for run_id, value in said.items() if isinstance(value, bool)}


def _grant(item: Any) -> Grant | None:
    if not isinstance(item, dict):
        return None
    run_id, source, unit = item.get("runId"), item.get("source"), item.get("unit")
    limit, life = item.get("limit"), item.get("expires_seconds")
    if not isinstance(run_id, str) or not run_id or not _whole(source) or source < 0:
        return None
    if unit not in UNITS or "limit" not in item:
        return None
    if limit is not None and (not _whole(limit) or not 1 <= limit <= _LARGEST):
        return None
    seconds = _life(life)
    if seconds is None:
        return None
    reason, identity = item.get("reason"), item.get("identity")
    return Grant(
        run_id=run_id,
        source=source,
        unit=unit,
        limit=limit,
        expires_seconds=seconds,
        reason=reason[:100] if isinstance(reason, str) else "",
        identity=identity[:100] if isinstance(identity, str) else "",
        lapses=item.get("lapses") is True,
    )


def _executors(said: Any) -> ExecutorsOrder | None:
    if not isinstance(said, dict) or "wanted" not in said:
        return None
    wanted, seconds = said["wanted"], _life(said.get("expires_seconds"))
    if wanted is not None and (not _whole(wanted) or not 1 <= wanted <= _MOST_EXECUTORS):
        return None
    return None if seconds is None else ExecutorsOrder(wanted, seconds)


def _life(seconds: Any) -> float | None:
    """How long something holds; None where that makes no sense."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        return None
    if not 0 < seconds < math.inf:
        return None
    return float(min(seconds, LONGEST_LIFE_SECONDS))  # a whole number may be beyond all floats


def _complaint(item: Any) -> str:
    error = item.get("error") if isinstance(item, dict) else None
    return words(str(error)[:200]) if error is not None else "no reason given"


def words(said: str) -> str:
    """What an agent or a proxy says, fit for a log: one line, of what can be printed alone."""
    return " ".join("".join(mark if mark.isprintable() else " " for mark in said).split())


def _whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
