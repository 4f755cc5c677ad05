"""Takes what may be secret out of addresses before they leave the driver."""

from __future__ import annotations

import re
from typing import Final

#: In these schemes the part before ``@`` names a container, not a user.
_CONTAINER_SCHEMES: Final = ("abfs", "abfss", "wasb", "wasbs")
_ADDRESS: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*)://(?:(?P<user>[^/?#\s@]*(?:@[^/?#\s@]*)*)@)?"
    r"(?P<rest>[^\s?#]*)(?P<query>[?#][^\s\]\)]*)?"
)


def redact_addresses(text: str) -> str:
    """``s3a://KEY:SECRET@bucket/x?token=y`` -> ``s3a://bucket/x``; other text stays as it is."""
    return _ADDRESS.sub(_redacted, text)


def _redacted(found: re.Match[str]) -> str:
    user = found["user"]
    keep = user is not None and ":" not in user and found["scheme"].lower() in _CONTAINER_SCHEMES
    return f"{found['scheme']}://{f'{user}@' if keep else ''}{found['rest']}"
