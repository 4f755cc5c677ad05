"""Takes what may be secret out of texts: before they leave the driver, and again in the agent.

By shape: addresses with a user or a query, paths that are a secret (webhooks, bots), values behind
names like ``password``, and values that tell by themselves what they are. Rather a word too many
than one too few.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import lru_cache
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

#: What goes on at once where a value or a query seemed to end, and is still of it; a separator, or
#: what closes, is none, nor as addresses write it.
_ON: Final = r"(?:[\w+=~!#$@^*\-]|/(?!>)|%(?!2[02679Cc]|[57][Dd]|3[Bb]))"
_MORE: Final = rf"[:.?]?{_ON}"  # one alone ends a sentence
#: In these schemes the part before ``@`` names a container, not a user.
_CONTAINER_SCHEMES: Final = ("abfs", "abfss", "wasb", "wasbs")
#: The user's password may hold a slash, where what follows the colon is no port; a text that was
#: cut may end in it. SQL Server's settings follow host and port, and may hold an ``@``.
_PORT: Final = r"\d{1,5}(?![^/?#,;:\s\"')\]}])"
#: A quote or a bracket in it may be a password's, and what follows would be told without its name.
_QUERY: Final = rf"(?:[^\s\]\)\"]|[\]\)\"](?=[&?\"]?{_ON}))*"
_ADDRESS: Final = re.compile(
    rf"(?<![A-Za-z0-9+.\-])(?P<scheme>[A-Za-z0-9+.\-]+)://(?![^/?#\s@:;]{{0,300}}(?::{_PORT})?;)"
    r"(?:(?P<user>[^/?#\s@]*(?:@[^/?#\s@]*)*"
    rf"|[^/?#\s@:\[]{{0,300}}:(?!{_PORT})[^\s@\"'<>]{{1,300}})@"
    rf"|[^/?#\s@:\[]{{0,300}}:(?!{_PORT})[^\s@\"'<>,;=)\]}}]{{1,300}}\Z)?"
    rf"(?P<rest>[^\s?#]*)(?P<query>[?#]{_QUERY})?"
)
#: A secret of S3 may begin as a port does.
_S3_USER: Final = re.compile(r"(?i)\b(s3[an]?://)[^\s/:@]{1,300}:[^\s@]{1,300}(?:@|\Z)")
_ORACLE_USER: Final = re.compile(
    r"(?i)\b(jdbc:oracle:\w{1,20}:)[^\s/@]{0,300}/(?!/)"
    r"(?:\"[^\"\n]{0,300}(?:\"@|\Z)|[^\s@]{0,300}(?:@[^\s@/:(]{1,300}(?=@))?(?:@|\Z))"
)
#: Clients of HTTP print an address without its host: ``with url: /path?query``.
_PATH: Final = re.compile(
    r"(?i)(?:(?<=\burl: )(?P<told>/[^\s?#]*)\?"
    rf"|(?<=[\s\"'(])(?P<path>/[^\s\"'()?#]*)\?(?=[\w.\-]+=)){_QUERY}"
)
#: Names of which only those in a query are a secret's.
_IN_QUERY: Final = re.compile(r"(?i)(?<=[?&])(?P<name>(?:key|code|auth|sas)=)[^\s&\"'\)\]]+")
#: Who knows such a path may write: Slack, Discord, Teams, Zapier, IFTTT, Telegram, Datadog, Sumo
#: Logic and PagerDuty. Of HTTP alone, so that a table or a checkpoint called ``IncomingWebhook``
#: keeps its path.
_HOOK: Final = re.compile(
    r"(?P<name>(?:\bhttps?://|\burl: /|\b(?:GET|POST|PUT|PATCH) /)[^\s?#\"']{0,300}?"
    r"(?:(?<=/)services/T[A-Z0-9]+/B[A-Z0-9]+/"
    r"|(?<=/)(?:workflows|triggers)/T[A-Z0-9]+/(?:A[A-Z0-9]+|\d+)/"
    r"|(?<=/)api(?:/v\d+)?/webhooks/\d+/|(?<=/)IncomingWebhook/|(?<=/)hooks/catch/"
    r"|(?<=/)with/key/|(?<=/)bot\d+:"
    r"|(?<=/)receiver/v1/http/|(?<=/)(?:v1/input|integration)/(?=\w{32})))"
    r"[^\s?#\"'\)\],;]+"
)
#: Of names, in small letters: looked for in a text made small, several times as fast.
_SMALL: Final = {ord(large): large.lower() for large in ascii_uppercase}
_WORD: Final = re.compile(
    r"pa?ss?wo?r?[dt]|passphrase|passcode|(?<!by)(?<!com)pass(?![a-z])|pwd"
    r"|(?<![a-z])(?:db)?pw(?![a-z])|secret(?:[._ -]?(?:access[._ -]?)?key)?|token(?!iz)|credential"
    r"|client[._-]?assertion|x-honeycomb-team|signature|(?<![a-z])sig(?![a-z])|cookie|jsessionid|authorization"
    r"|auth[._-]?user[._-]?info|(?<=\.)auth(?![\w.\-])|(?<=azure\.)sas(?=\.)"
    r"|(?:master|api|access|account|shared|private|subscription|functions|signing|storage|auth(?:entication)?|sas"
    r"|ssl|(?:encryption|sse)(?:[._-]?customer)?|app(?:lication)?|license|instrumentation|workspace)"
    r"[._ -]?key(?!gen|size)|(?:insert|ingest(?:ion)?)[._-]?key"
)
#: A name that ends so tells of a secret, and is none: its class, its file, how long it holds.
_ABOUT: Final = re.compile(
    r"(?i)(?:exception|error|provider|class|source|manager|file|path|location|url|uri|endpoint|type"
    r"|name|arn|ttl|lifetime|expir\w*|enabled|mechanism|policy|scope|version|length)s?\Z"
    r"|\.(?:java|scala|kt|py)\Z"
)
#: Quotes and signs, and how JSON in JSON, HTML and addresses write them.
_QUOTE: Final = r"(?:\\*[\"'`]|\\+u002[27]|&quot;|&#3[49];|%2[27])"
_TWO_COLONS: Final = r"::(?!\w{1,60}(?:::|[(<]))"  # LDIF's; in C++ a name goes on
_SIGN: Final = rf"(?:->|=>|[:!]?={{1,3}}|:(?!:)|{_TWO_COLONS}|\\+u003[ad]|&#(?:58|61);|%3[ad])"
_TYPED: Final = r":\s?[\w.]{1,30}(?:\[[\w., ]{1,60}\])?\s?=\s?"  # as in ``password: str = "x"``
#: Characters of a name, and of a value with blanks that only the next pair ends: nobody gives
#: longer ones, and a long text must not take long.
_LONGEST_NAME: Final = 100
_LONGEST_BLANKS: Final = 300
#: What stands between the word and its value: the rest of the name, which an f-string or a sum may
#: have put together, what closes it, as in ``conf["x.password"]``, in a list of pairs a key called
#: ``value``, and what joins them.
_AFTER: Final = re.compile(
    r"(?i)(?=(?P<rest>(?:[\w.]|-(?!>)|\$?\{[\w.]{0,60}\}"
    rf"|[\"']\s?\+\s?[\w.()]{{1,60}}\s?\+\s?[\"']){{0,{_LONGEST_NAME}}}))(?P=rest)"
    rf"{_QUOTE}?(?:\[[^\]\n]{{0,60}}\])?\]?"
    rf"(?:(?:</\w{{1,20}}>)?\W{{1,30}}?value(?!\w){_QUOTE}?)?"
    rf"(?:(?P<sign>\s*(?:{_TYPED}(?={_QUOTE}|\*{{3}})|{_SIGN}\s*))"
    r"|(?P<tag>(?<!-)>(?=[^\s<>.,;:)]))"
    rf"|(?P<call>\((?=[frbu]{{0,2}}{_QUOTE}))"
    r"|(?P<beside>(?:(?<=[\w\"'])\s?,\s*|[ \t]+(?:(?:is|was)[ \t]+)?)"
    rf"(?!`)(?=[frbu]{{0,2}}{_QUOTE}))"
    r"|(?P<tuple>(?<=\w),(?=[^\s)]))"
    r"|(?P<blank>[ \t]+(?=\S)))"
)
#: After a comma: the next key of JSON, where the name only ended a sentence.
_KEY: Final = re.compile(r"[\"']\w{1,100}[\"']\s?:")
#: Kubernetes names a Secret so.
_NO_SUCH: Final = re.compile(r"\"[\w.\-/]{1,253}\" (?:not found|is forbidden|already exists)")
#: Parts of values.
_OPENED: Final = re.compile(
    rf"(?i)(?:!{{1,2}}\w{{1,20}} )?(?:[frbu]{{1,2}}(?=[\"']))?(?P<mark>{_QUOTE})"
)
_PAIR: Final = r"\s{0,3}[\w.\-]{1,60}[\"']?\s?(?:=|:|->)"
#: With quotes doubled or with a backslash before; one that a letter follows is an apostrophe. Where
#: there was a backslash, which may have been the value's last sign, a name's end closes nothing.
_QUOTED: Final = {
    quote: re.compile(
        rf"(?:(?:[^{quote}\\]|{quote}{quote}|{quote}(?=\w)|\\(?:[^{quote}]|\Z))*"
        rf"(?:\\{quote}(?:[^{quote}\\]|{quote}(?:{quote}|(?=\w|\s?[:=]))|\\(?:[\s\S]|\Z))*)?){quote}?"
    )
    for quote in "\"'`"
}
_BRACKETED: Final = re.compile(
    r"(?:\w{1,40}\(|[\[(])(?:(?:\"[^\"\n]*\"|'[^'\n]*'|[^\])\"']){0,500}[\])]|[^\n]*)"
)
#: How SQL Server and ODBC quote, ``}}`` for ``}`` within.
_BRACED: Final = re.compile(r"\{(?:[^}\n]|\}\}(?=[^}\n]{0,300}\}))*\}?")
#: Of YAML: lines that go on, and a list's.
_BLOCK: Final = re.compile(r"[|>][+-]?\d?[ \t]*(?:\n[ \t]+[^\n]*)+|- [^\n]*(?:\n[ \t]*- [^\n]*)*")
#: Without quotes a separator or what closes belongs to the value where more of it follows at once.
_WORDED: Final = re.compile(
    rf"(?:\$\{{[^}}\n]{{0,100}}\}}|\{{\w{{1,40}}\}}|[^\s,;&\"'`)\]}}<\\]|\\(?!\\{{0,8}}[\"'`](?!\w))"
    rf"|[,;&](?![\s,;&\"'`)\]}}]|\Z|{_PAIR})|[\"'`)\]}}](?=\w)(?!{_PAIR})|<(?!/))+"
)
#: Behind a colon or an arrow: its own names tell; or what a parser stumbled over.
_OBJECT: Final = re.compile(
    rf"\{{(?:\W?(?:\s|\Z)|\}}|{_QUOTE}|\\+[nrt]|[\w.\-]{{1,60}}\s?(?:[:=]|->))"
)
#: One of several, whose value may hold blanks: up to the next pair, or the end of what they stand
#: in. Before a colon and a blank there was a sentence.
_NEXT: Final = r"[\s,;&]{1,3}[\w.\-]{1,100}\s?(?:=|->|:\s)"
_LISTED: Final = {
    before: re.compile(
        rf"(?:[^{but}\n:\"']|:(?!\s)|[\"'](?![\s,)\]}}:])){{1,{_LONGEST_BLANKS}}}?(?={_NEXT}|{end})"
    )
    for before, but, end in (
        (";", ";", r";\s?[\w. ]{1,60}="),
        (",", r"({\[", r"[)\]}](?!\w)"),
        *((opened, r"({\[", r"[)\]}](?!\w)|\Z") for opened in "({["),
    )
}
_OF_ITS_OWN: Final = re.compile(rf"[^\n]+?(?={_NEXT}|\n|\Z)")
_TUPLED: Final = {
    "(": re.compile(r"[^)\n]{300}|[^)\n]{1,299}(?:[)\n]|\Z)"),
    "": re.compile(r"[^\s)]{300}|[^\s)]{1,299}\)"),
}
_IN_TUPLE: Final = re.compile(rf"[^\n]{{1,{_LONGEST_BLANKS}}}?(?=\)(?:[\s,)\]]|\Z))")
_IN_TAG: Final = re.compile(r"[^<\n]+")
#: What a colon may be followed by in a sentence: a class, or two plain words.
_SENTENCE: Final = re.compile(
    r"[\w.$]{1,200}(?:Exception|Error)\b|(?:The|This|An?|Your|Invalid)\s"
    r"|(?:[A-Z]?[a-z]{1,30}|[A-Z]{2,8}),? (?:[a-z]{1,30}|[A-Z][a-z]{1,30})(?![^\s,.:;)])"
)
#: What a validation says of what a line begins with: words and a number or two to the line's end.
_VERDICT: Final = re.compile(
    r"(?:size )?(?:(?:must|should|may|can) ?(?:not )?(?:be|have|contain|match)"
    r"|is (?:required|missing|empty|not (?:set|valid)))"
    r"(?: (?:[a-z]{1,15}|\d{1,4})){0,20}\.?(?=\n|\Z)"
)
#: Of a source line in a traceback of Python: a name, or a call that is given names alone.
_CODE: Final = re.compile(
    r"(?:await )?[A-Za-z_][\w.]{0,100}(?:\([A-Za-z_.,=() ]{0,100}\))?[ \t]*(?:\n|\Z)"
)
_LONGEST_FRAME: Final = 500  # characters of a line that tells a file and a function
_FRAME: Final = re.compile(
    r"\n[ \t]*File \"[^\"\n]{1,300}\", line \d{1,7}, in [^\n]{1,100}\n[ \t]+\Z"
)
_PLAIN: Final = re.compile(r"[A-Z]?[a-z]{1,15}(?![.:]\w)(?![^\s,.:;)\]}'\"])")
_NOTHING: Final = re.compile(
    r"(?i)(?:null|none|true|false|yes|no|string|binary|u?int|bigint|long|double|boolean)"
    rf"(?![^\s,;&)\]}}>|\"'`]|\|\w)|\*{{3}}(?!{_MORE})"
)
_GOES_ON: Final = re.compile(_MORE)
_NUMBER: Final = re.compile(r"\d{1,19}(?![^\s,;)\]}\"'])")
_SCHEME: Final = re.compile(
    r"(?i)(?:bearer|basic|token|api-?key|splunk|sharedkey(?:lite)?|aws|negotiate|oauth|digest"
    r"|ntlm) +"
)
#: A scheme that nobody here knows, or a secret of letters alone: it goes with what follows it.
_OTHER_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z\-]{1,30} +(?![\w\-]{1,40}=[\"'\w])(?=\S)")
#: A line of a trace: no value goes over it.
_TRACE: Final = re.compile(
    r"\n(?=[ \t]*(?:at |\.{3} \d|Caused by|Suppressed: |File \"|Traceback |\[\.{3}\]"
    r"|[\w.$]{1,200}(?:Exception|Error)\b))"
)
_LINE: Final = re.compile(r"\n")
#: Tools take ``-u user:password``.
_USER_OPTION: Final = re.compile(
    r"(?P<name>(?<![\w\-])(?:-u|--(?:proxy-)?user)(?:[ =]|[\"'],\s?)[\"']?[^\s:\"',/]{1,100}:)"
    r"[^\s\"',]+"
)
#: PagerDuty's; what brokers of messages call so has no such shape.
_ROUTING_KEY: Final = re.compile(
    r"(?i)(?P<name>\b(?:routing|integration)[._ -]?key[\"']?\s?[:=]\s?[\"']?)[A-Z0-9]{32}\b"
)
#: SQL gives a user a password without a sign between: ``IDENTIFIED BY 'x'``.
_IDENTIFIED: Final = re.compile(
    r"(?P<name>\b(?:(?i:identified(?: with \S{1,100})? by (?:values )?)(?=[\"'])"
    r"|IDENTIFIED BY (?:VALUES )?))"
    r"(?P<value>'[^']*(?:'|$)|\"[^\"]*(?:\"|$)|[^\s,;]+)"
)
#: ``Bearer`` and ``Basic``, and how services let their tokens begin: of no word that anybody reads.
_BY_ITSELF: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?"
    r"(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\beyJ(?:[\w\-]{8,2000}(?:\.[\w\-]*){1,4}|[\w\-]{2000}[\w\-.]*)"
    r"|\bdapi[0-9a-f]{32}\b"
    r"|\bdt0[a-z]\d\d\.[A-Z0-9]{8,}\.[A-Z0-9]{16,}|\bNRAK-[A-Z0-9]{16,}|(?<=GenieKey )[\w\-]{16,}"
    r"|\b(?:gh[oprsu]_|github_pat_|gl[a-z]{2,6}-|xox[a-z]-|[rs]k_live_|sk-|hf_|npm_|hv[bsr]\.|SG\.|ya29\.|AIza"
    r"|glc_)"
    r"(?=[\w\-.]{0,80}[A-Z])(?=[\w\-.]{0,80}\d)[\w\-.]{16,}"
    r"|\b[A-Za-z]{2,12}(?:[_\-][A-Za-z0-9]{1,6}){0,2}[_\-](?=[A-Za-z0-9]{0,40}[A-Z])"
    r"(?=[A-Za-z0-9]{0,40}[a-z])(?=(?:[A-Za-z]{0,20}\d){3})[A-Za-z0-9]{20,}[\w\-]*"
    r"|(?<=Basic )(?![a-z]+\b)[A-Za-z0-9+/]{8,}={0,2}"
    r"|(?<=(?i:bearer) )(?!\w{1,40}=[\"'])"
    r"(?:(?=[\w\-.~+/]{0,200}\d)(?:[^\s,;\"'\\]|\\(?!\\{0,8}[\"']))+|[\w\-.~+/]{16,}=*)",
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
    for pattern in (_HOOK, _IN_QUERY, _IDENTIFIED, _USER_OPTION, _ROUTING_KEY):
        text = pattern.sub(lambda found: found["name"] + STRUCK, text)
    return _redact_named(text)


def _redact_named(text: str) -> str:
    """The values behind names such as ``password``, however name and value are joined."""
    kept: list[str] = []
    done = at = 0
    ends: dict[re.Pattern[str], list[int]] = {}

    def end(of: re.Pattern[str], after: int) -> int:
        if of not in ends:
            ends[of] = [found.start() for found in of.finditer(text)]
        following = bisect_left(ends[of], after)
        return ends[of][following] if following < len(ends[of]) else len(text)

    small = text.translate(_SMALL)
    while word := _WORD.search(small, at):
        at = word.end()
        found = _AFTER.match(text, at)
        if found is None:
            continue
        told = _told(text, word.start(), found, end)
        if told and _GOES_ON.match(text, told[1]) and (more := _WORDED.match(text, told[1])):
            told = told[0], more.end()  # behind a bracket or a quote
        if told is None or told[1] <= max(told[0], done):
            continue
        if told[0] > done or not kept:
            kept += text[done : told[0]], STRUCK
        done = told[1]
        at = max(told[0], done - _LONGEST_NAME)  # the value may end with the name of another
    return "".join((*kept, text[done:]))


class _Joined(NamedTuple):
    """A name and what follows it: how, from where, and where at the latest a value ends."""

    text: str
    begin: int
    name: str
    how: str
    sign: str
    at: int
    stop: int

    @property
    def before(self) -> str:
        """What the name stands behind: a sign, a line's end, or of a sentence anything else."""
        said = self.text[max(self.begin - 64, 0) : self.begin]
        said = said.rstrip("\"'`\\").rstrip(" \t-").removesuffix("export")
        return said.rstrip(" \t")[-1:] or "\n"

    @property
    def in_traceback(self) -> bool:
        """Whether the name begins the source line of one of Python's."""
        above = self.text.rfind("\n", max(self.begin - _LONGEST_NAME, 0), self.begin)
        above = self.text.rfind("\n", max(above - _LONGEST_FRAME, 0), max(above, 0))
        return above >= 0 and _FRAME.match(self.text, above, self.begin) is not None


def _told(
    text: str,
    word: int,
    found: re.Match[str],
    end: Callable[[re.Pattern[str], int], int],
) -> tuple[int, int] | None:
    """Where the value begins and ends that ``found`` stands before; None where it is no secret."""
    begin = word
    while begin > max(0, word - _LONGEST_NAME) and (
        text[begin - 1].isalnum() or text[begin - 1] in "_.-"
    ):
        begin -= 1
    name, at, how = text[begin : found.end("rest")], found.end(), found.lastgroup or ""
    if "azure." not in name and _ABOUT.search(name):  # there an account's name ends the key's
        return None
    stop = end(_LINE if how == "beside" else _TRACE, at - 1 if text[at - 1] == "\n" else at)
    if how != "beside" and stop < at:
        return None  # the sign was a line's last
    joined = _Joined(text, begin, name, how, found["sign"] or "", at, stop)
    if how == "blank" and not _is_setting(joined):
        return None
    if how == "beside" and not _is_beside(joined, found):
        return None
    if how == "tuple" and not _TUPLED[_opening(joined)].match(text, at):
        return None
    opened = _OPENED.match(text, at)
    if opened is not None:
        return at, _closed(joined, opened)
    if how == "call":
        return None
    if how == "tag":
        inside = _IN_TAG.match(text, at, stop)
        return inside and inside.span()
    return _unquoted(joined)


def _opening(joined: _Joined) -> str:
    return "(" if joined.text[joined.begin - 1 : joined.begin] == "(" else ""


def _is_beside(joined: _Joined, found: re.Match[str]) -> bool:
    """``"name", "value"`` and ``name 'value'``, and no sentence that a string or a name follows."""
    text = joined.text
    if "," in found["beside"]:
        before, closed = text[joined.begin - 1 : joined.begin], text[found.end("rest")] in "\"'\\"
        told = before != " " if closed else before == "(" or joined.name.isupper()
        return told and not _KEY.match(text, joined.at)
    bare = joined.name.lower() in ("token", "tokens", "pass") and text[found.end("rest")].isspace()
    return not bare and not _NO_SUCH.match(text, joined.at)


def _is_setting(joined: _Joined) -> bool:
    """``--password x`` and ``fs.s3a.secret.key x``, and no sentence that names them, nor a path."""
    text, name, at = joined.text, joined.name, joined.at
    if text[at] in "-|<([`" or text[joined.begin - 1 : joined.begin] == "/":
        return False
    dotted = "." in name and not re.search(r"\.[A-Z]", name)
    return name.startswith("-") or (dotted and not _PLAIN.match(text, at))


def _closed(joined: _Joined, opened: re.Match[str]) -> int:
    text, mark, at = joined.text, opened["mark"], opened.end()
    if text.startswith(mark * 2, at) and mark in _QUOTED:  # three of them, as in Python
        mark, at = mark * 3, at + 2
    if mark in _QUOTED:
        inside = _QUOTED[mark].match(text, at, joined.stop)
        return inside.end() if inside else joined.stop
    closing = re.compile(rf"(?<!\\){re.escape(mark)}").search(text, at, joined.stop)
    return closing.end() if closing else joined.stop


def _unquoted(joined: _Joined) -> tuple[int, int] | None:
    text, name, at, before = joined.text, joined.name, joined.at, joined.before
    header = name.lower().endswith("authorization")
    scheme = _SCHEME.match(text, at) if header else None
    at = scheme.end() if scheme else at
    if _NOTHING.match(text, at):
        return None
    if re.search(r"(?i)tokens?\Z|id\Z|-\d+\Z", name) and _NUMBER.match(text, at):
        return None  # how many, or of a topic called so the offset
    if joined.sign.strip() == ":" and not scheme:
        token = name.lower().endswith("token")
        told = before not in "\n,;{[" or header or re.match(r"[A-Z]\w*[a-z]", name)
        spoken = _VERDICT.match(text, at) or ((told or token) and _SENTENCE.match(text, at))
        if spoken and joined.sign[-1:].isspace():
            return None
        if told and token and _PLAIN.match(text, at):
            return None
    if joined.sign.strip() == "=" and _CODE.match(text, at) and joined.in_traceback:
        return None
    if "=" not in joined.sign and _OBJECT.match(text, at):
        return None
    patterns: tuple[re.Pattern[str], ...] = (_WORDED,)
    if joined.how == "tuple" and _opening(joined):
        patterns = (_IN_TUPLE, _WORDED)
    elif joined.sign and not header:
        braced = (_BRACED,) if "=" in joined.sign else ()
        patterns = (*braced, _BLOCK, _BRACKETED, *_listed(before), _WORDED)
    elif joined.sign:
        patterns = (_BRACKETED, _WORDED)
    other = _OTHER_SCHEME.match(text, at, joined.stop) if header and not scheme else None
    for begin in (at,) if other is None else (other.end(), at):
        for pattern in patterns:
            if found := pattern.match(text, begin, joined.stop):
                return at, found.end()
    return None


def _listed(before: str) -> tuple[re.Pattern[str], ...]:
    if before == "\n":
        return (_OF_ITS_OWN,)
    return (_LISTED[before],) if before in _LISTED else ()


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
    if not said.startswith(f"{name}=") or said.startswith(f"{name}={STRUCK}"):
        return STRUCK  # all of it: blanks, commas and quotes end nothing here
    return said[len(name) + 1 :]


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
