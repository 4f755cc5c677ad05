"""Takes what may be secret out of texts: before they leave the driver, and again in the agent.

By shape: addresses with a user or a query, paths that are a secret (webhooks, bots), values behind
names like ``password``, and values that tell by themselves what they are. Rather a word too many
than one too few.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

#: In these schemes the part before ``@`` names a container, not a user.
_CONTAINER_SCHEMES: Final = ("abfs", "abfss", "wasb", "wasbs")
_ADDRESS: Final = re.compile(
    r"(?<![A-Za-z0-9+.\-])(?P<scheme>[A-Za-z0-9+.\-]+)://(?:(?P<user>[^/?#\s@]*(?:@[^/?#\s@]*)*)@)?"
    r"(?P<rest>[^\s?#]*)(?P<query>[?#][^\s\]\)]*)?"
)
#: A secret of S3 may hold a slash, which ends the user of any other address.
_S3_USER: Final = re.compile(r"(?i)\b(s3[an]?://)[^\s/:@]{1,300}:[^\s@]{1,300}@")
_ORACLE_USER: Final = re.compile(r"(?i)\b(jdbc:oracle:\w{1,20}:)[^\s/@]{0,300}/[^\s@]{0,300}@")
#: Clients of HTTP print an address without its host: ``with url: /path?query``.
_PATH: Final = re.compile(
    r"(?i)(?:(?<=\burl: )(?P<told>/[^\s?#]*)\?"
    r"|(?<=[\s\"'(])(?P<path>/[^\s\"'()?#]*)\?(?=[\w.\-]+=))[^\s\]\)]*"
)
#: Names of which only those in a query are a secret's.
_IN_QUERY: Final = re.compile(r"(?i)(?<=[?&])(?P<name>(?:key|code|auth|sas)=)[^\s&\"'\)\]]+")
#: Who knows such a path may write: Slack, Discord, Teams, Zapier, IFTTT and Telegram. Of HTTP
#: alone, so that a table or a checkpoint called ``IncomingWebhook`` keeps its path.
_HOOK: Final = re.compile(
    r"(?P<name>(?:\bhttps?://|\burl: /|\b(?:GET|POST|PUT|PATCH) /)[^\s?#\"']{0,300}?"
    r"(?:(?<=/)services/T[A-Z0-9]+/B[A-Z0-9]+/"
    r"|(?<=/)(?:workflows|triggers)/T[A-Z0-9]+/(?:A[A-Z0-9]+|\d+)/"
    r"|(?<=/)api(?:/v\d+)?/webhooks/\d+/|(?<=/)IncomingWebhook/|(?<=/)hooks/catch/"
    r"|(?<=/)with/key/|(?<=/)bot\d+:))"
    r"[^\s?#\"'\)\],;]+"
)
#: Schemes in any case; ``Bearer`` and ``Basic`` tell by themselves.
_AUTHORIZATION: Final = re.compile(
    r"(?i)(?P<name>\bauthorization\\*[\"']?\s*(?:->|=>|=|:)\s*\\*[\"']?"
    r"(?:bearer|basic|token|api-?key|splunk|sharedkey(?:lite)?|aws) +)[^\s,;\"']+"
)
_WORDS: Final = (
    r"passw(?:or)?d|passphrase|\bpass|pwd|secret|token|credential(?!s?[._-]?source)|signature|\bsig"
    r"|auth[._-]?user[._-]?info"
    r"|master[._-]?key|api[._-]?key|access[._-]?key|account[._-]?key|shared[._-]?key|private[._-]?key|ssl\.key"
    r"|subscription[._-]?key|functions[._-]?key"
    r"|(?:encryption|sse)[._-]?(?:customer[._-]?)?key(?!gen|size)"
)
#: The word alone is what parsers of SQL and of JSON stumble over.
_BARE: Final = r"(?<![\w.\-])token"
#: ``name=value``, ``name: value``, ``"name":"value"``, ``name -> value``, ``(name,value)``; where
#: quotes tell the value, ``"name", "value"`` as in Python, and ``name 'value'`` as in SQL: within a
#: line, and not where a parser names what it stumbled over (``Unrecognized token 'x'``), or a JSON
#: text ends with the word and another key follows.
#: Looked for where a run of a name's characters begins, and in no longer ones than anybody gives: a
#: long text must not take long. Braces behind ``=`` are how SQL Server and ODBC quote, ``}}`` how
#: they write ``}`` within; behind a colon they are JSON's.
_NAMED: Final = re.compile(
    r"(?i)(?P<name>(?<![\w.\-])(?![\w.$\-]{0,200}(?:Exception|Error)\b)"
    rf"[\w.\-]{{0,100}}?(?:{_WORDS})[\w.\-]{{0,100}}"
    r"(?:\\*[\"'])?(?:\s*(?:->|=>|=|:)\s*|(?P<beside>(?:(?<=[\"']),"
    rf"(?!(?<={_BARE}[\"'],)\s*\"\w{{1,100}}\"\s?:)\s*|(?<!{_BARE})[ \t]+)(?=\\*[\"']))"
    r"|(?<=\w),(?=[^\s)]{300}|[^\s)]{1,299}\))))"
    r"(?!(?<=:\s)(?:The|This|An?|Your|Invalid)\s)"  # a sentence about it
    r"(?P<value>(?(beside)(?:(?P<mark>\\+[\"'])[^\n]*?(?:(?P=mark)|(?=\n)|$)"
    r"|\"(?:[^\"\\\n]|\\[^\n])*\"?|'[^'\n]*'?)"
    r"|(?:(?P<quote>\\+[\"'])[\s\S]*?(?:(?P=quote)|$)|\"(?:[^\"\\]|\\[\s\S])*(?:\"|$)"
    r"|'[^']*(?:'|$)|(?<=[=])\{(?:[^}\n]|\}\}(?=[^}\n]{0,300}\}))*\}?|[^\s,;&\"'\)\]}]+)))"
)
#: SQL gives a user a password without a sign between: ``IDENTIFIED BY 'x'``.
_IDENTIFIED: Final = re.compile(
    r"(?P<name>\b(?:(?i:identified(?: with \S{1,100})? by )(?=[\"'])|IDENTIFIED BY ))"
    r"(?P<value>'[^']*(?:'|$)|\"[^\"]*(?:\"|$)|[^\s,;]+)"
)
_BY_ITSELF: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\beyJ(?:[\w\-]{8,2000}\.[\w\-]+(?:\.[\w\-]*)?|[\w\-]{2000}[\w\-.]*)"
    r"|\bdapi[0-9a-f]{32}\b"
    r"|(?<=Bearer )[^\s,;\"']+|(?<=Basic )[A-Za-z0-9+/]{8,}={0,2}",
    re.DOTALL,
)
STRUCK: Final = "***"
#: Of what an exception says, no more is sent.
LONGEST_TEXT: Final = 16_000
_LEFT_OUT: Final = "\n[...]\n"
_BREAKS: Final = " \t\r\n\"'"
_UNBROKEN: Final = re.compile(rf"\A[^{_BREAKS}]*")  # what a value may go on with
#: Fields of an event whose text is not Weir's own.
_FREE_TEXTS: Final = frozenset(
    (
        "description",
        "sink",
        "checkpointLocation",
        "exception",
        "errorClassOnException",
        "note",
        "uiUrl",
        "trigger",
    )
)


def both_ends(text: str, longest: int) -> str:
    """Of a text that is too long its beginning and its end: an exception's root cause is there."""
    half = (longest - len(_LEFT_OUT)) // 2
    return text if len(text) <= longest else f"{text[:half]}{_LEFT_OUT}{text[-half:]}"


def redact(text: str) -> str:
    """``jdbc:…;user=sa;password=x`` -> ``jdbc:…;user=sa;password=***``; addresses without users."""
    text = _S3_USER.sub(r"\1", _ORACLE_USER.sub(r"\1", text))
    text = redact_addresses(_BY_ITSELF.sub(STRUCK, text))
    text = _PATH.sub(lambda found: found["told"] or found["path"], text)
    for pattern in (_HOOK, _IN_QUERY, _AUTHORIZATION, _IDENTIFIED, _NAMED):
        text = pattern.sub(lambda found: found["name"] + STRUCK, text)
    return text


def redact_long(text: str) -> str:
    """The ends of a text that may be long, as they are sent and kept.

    No more than twice as much is looked at on either side: there is no end to how long one takes.
    Secrets are struck out before the cut, which may part a value from its name; with what the first
    cut goes through that may have happened, so nothing of it is kept.
    """
    looked_at = 2 * LONGEST_TEXT
    if len(text) <= 2 * looked_at:
        return both_ends(redact(text), LONGEST_TEXT)
    kept = (LONGEST_TEXT - len(_LEFT_OUT)) // 2
    first, end = text[:looked_at], redact(_UNBROKEN.sub("", text[-looked_at:]))
    begin = redact(first)
    if len(begin) <= kept:  # so much was struck out that the cut would show
        begin = redact(first[: max(map(first.rfind, _BREAKS)) + 1])
    return f"{begin[:kept]}{_LEFT_OUT}{end[-kept:]}"


#: For what comes again with each batch.
redact_again = lru_cache(maxsize=1024)(redact)


def redact_conf(name: str, value: str) -> str:
    """The value of a setting of that name."""
    said = redact(f"{name}={value}")
    return said[len(name) + 1 :] if said.startswith(f"{name}=") else STRUCK


def redact_event(value: Any, key: str = "") -> Any:
    """An event, or part of one, as JSON gives it: with what may be secret taken out."""
    if isinstance(value, dict):
        if key == "conf":
            return {
                name: redact_conf(str(name), str(said)[:LONGEST_TEXT])
                for name, said in value.items()
            }
        return {name: redact_event(said, name) for name, said in value.items()}
    if isinstance(value, list):
        return [redact_event(one, key) for one in value]
    return redact_long(value) if isinstance(value, str) and key in _FREE_TEXTS else value


def redact_addresses(text: str) -> str:
    """``s3a://KEY:SECRET@bucket/x?token=y`` -> ``s3a://bucket/x``; other text stays as it is."""
    return _ADDRESS.sub(_redacted, text)


def _redacted(found: re.Match[str]) -> str:
    user = found["user"]
    keep = user is not None and ":" not in user and found["scheme"].lower() in _CONTAINER_SCHEMES
    return f"{found['scheme']}://{f'{user}@' if keep else ''}{found['rest']}"
