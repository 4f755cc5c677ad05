"""What a file of tokens holds: one a line, or in a token's place its digest.

Who reads a digest can tell a token, and cannot make it: an agent needs no more of its clients'.
"""

from __future__ import annotations

from typing import Final

#: Before the 64 hexadecimal digits of a token's SHA-256.
DIGEST_PREFIX: Final = "sha256:"


def to_send(text: str) -> str:
    """The token that a client sends, of the text of its file: the first.

    While a token is being replaced the agent takes each line. Raises ValueError, which says why.
    """
    lines = list(filter(None, map(str.strip, text.split("\n"))))
    token = next((line for line in lines if not line.lower().startswith(DIGEST_PREFIX)), "")
    if not lines:
        raise ValueError("is empty")
    if not token:
        raise ValueError("holds digests alone: name a file with the token itself")
    if not token.isascii() or not token.isprintable():
        raise ValueError("must hold a token that is printable ASCII")
    return token
