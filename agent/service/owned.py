"""Files of the agent's directory: for its owner's eyes."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def only_ours(file: Path | int) -> None:
    """Takes everybody else's rights to a file, by its path or its descriptor.

    One that another user has made is left as it is: on a volume that Kubernetes shares by group an
    agent may find what one under another user has written, and only the owner may do this.
    """
    with contextlib.suppress(PermissionError):
        os.chmod(file, 0o600)  # noqa: PTH101 - a path or a descriptor
