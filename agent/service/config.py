"""Every option of the agent, in one place: command line, then ``WEIR_*``, then the YAML file.

The command's help and docs/configuration.md are made from this module. What is wrong is said in one
line that names the key and where it was set; an unknown key is wrong too, since a misspelt deadline
that is silently ignored helps nobody at night.
"""

from __future__ import annotations

import difflib
import ipaddress
import json
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, InitSettingsSource, SettingsConfigDict

from agent.core.lag_groups import check_pattern
from agent.core.policy import Policy, QueryPolicy, Rule
from spark_listener.config import NAMES as DRIVER_OPTIONS
from spark_listener.config import environment_key
from spark_listener.wire import LONGEST_LIFE_SECONDS, MAX_REQUEST_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic_settings import PydanticBaseSettingsSource

ENV_PREFIX: Final = "WEIR_"
#: Variables of the same prefix that are not the agent's: the driver side and the other commands
#: read them, often in the same environment.
FOREIGN_VARIABLES: Final = frozenset(map(environment_key, DRIVER_OPTIONS)) | {"WEIR_CONFIG"}
FOREIGN_PREFIXES: Final = ("WEIR_DEMO_", "WEIR_TEST_", "WEIR_BENCHMARK_")
#: Kubernetes puts these into every container of a namespace that has a service "weir…".
_SERVICE_LINK = re.compile(
    r"^WEIR_(?:.+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_.*)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_.*)?|PORT)$"
)
#: The name of a fixed label.
LABEL_NAME: Final = re.compile(r"^[a-zA-Z][a-zA-Z0-9_]*$")
MAX_LABELS: Final = 10
#: The longest value of one, in characters.
MAX_LABEL_VALUE: Final = 200


class ConfigError(Exception):
    """The configuration cannot be used. One line: what, where, what to do."""


def _not_a_truth_value(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a number is needed, not a truth value")
    return value


def _yaml_word(value: Any) -> Any:
    """YAML 1.1 reads a bare ``on`` and ``off`` as true and false; here they are words."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


_Whole = Annotated[int, BeforeValidator(_not_a_truth_value)]
_Number = Annotated[float, BeforeValidator(_not_a_truth_value)]
_ModeWord = Annotated[Literal["off", "dry-run", "on"], BeforeValidator(_yaml_word)]
_DriverProcess = Annotated[
    Annotated[int, Field(gt=0)] | Literal["off", "auto"], BeforeValidator(_yaml_word)
]
_Doors = Annotated[Literal["off"] | Path | None, BeforeValidator(_yaml_word)]
_TIME: Final = r"([01]\d|2[0-3]):[0-5]\d"


def _spans(hours: str) -> str:
    for window in filter(None, hours.split(",")):
        begin, _, end = window.partition("-")
        if begin == end:
            raise ValueError(f"{window} ends when it begins: for the whole day, executors: dry-run")
    return hours


_Hours = Annotated[
    str, Field(pattern=f"^({_TIME}-{_TIME}(,{_TIME}-{_TIME})*)?$"), AfterValidator(_spans)
]
_Text = Annotated[str, Field(min_length=1, max_length=4096)]


def _option(group: str, default: Any, description: str, **constraints: Any) -> Any:
    return Field(
        default=default,
        description=description,
        json_schema_extra={"group": group},
        **constraints,
    )


class RuleSettings(BaseModel):
    """One entry of ``rules``: overrides for the queries that ``match`` fits."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    match: str = Field(min_length=1, max_length=500)
    mode: _ModeWord | None = None
    target_seconds: _Number | None = Field(default=None, gt=0)
    deadline_seconds: _Number | None = Field(default=None, gt=0)
    minimum_limit: _Whole | None = Field(default=None, ge=1)
    maximum_limit: _Whole | None = Field(default=None, ge=1)
    above_configured: bool | None = None
    late_rows: Literal["hold", "guard", "allow"] | None = None
    give_limits: Literal["safe", "all"] | None = None
    stretch_gain: _Number | None = Field(default=None, gt=0, le=1)
    executors: _ModeWord | None = None
    minimum_executors: _Whole | None = Field(default=None, ge=1, lt=2**31)
    maximum_executors: _Whole | None = Field(default=None, ge=1, lt=2**31)
    executors_quiet_seconds: _Number | None = Field(default=None, ge=0, le=7 * 86400)
    executors_quiet_hours: _Hours | None = None
    catch_up_seconds: _Number | None = Field(default=None, gt=0, le=7 * 86400)
    retire_seconds: _Number | None = Field(default=None, ge=0, le=365 * 86400)


def _minutes(hours: str) -> tuple[tuple[int, int], ...]:
    """``22:00-06:00,…`` as (from, until) in minutes of the day."""
    found = []
    for window in filter(None, hours.split(",")):
        begin, end = (int(at[:2]) * 60 + int(at[3:]) for at in window.split("-"))
        found.append((begin, end))
    return tuple(found)


def _rule(given: RuleSettings) -> Rule:
    told = given.model_dump()
    if told["executors_quiet_hours"] is not None:
        told["executors_quiet_hours"] = _minutes(told["executors_quiet_hours"])
    return Rule(**told)


class Settings(BaseSettings):
    """What the agent was told. Seconds, bytes; limits in each source's own unit."""

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=()
    )

    host: _Text = _option(
        "HTTP",
        "127.0.0.1",
        "Address to listen on. Beyond loopback a token file is a must.",
    )
    port: _Whole = _option("HTTP", 9655, "Port to listen on; 0 takes a free one.", ge=0, le=65535)
    address_file: Path | None = _option(
        "HTTP",
        None,
        "File to write the agent's address to once it listens, for scripts. Without it, "
        "`agent.address` in the state directory.",
    )
    token_file: Path | None = _option(
        "HTTP",
        None,
        "File with the tokens that clients must show, one a line; read again when it changes. "
        "In a token's place may stand `sha256:` and its digest.",
    )
    events_token_file: Path | None = _option(
        "HTTP",
        None,
        "File with tokens for drivers, of the same form: they open `POST /v1/events` and nothing "
        "else. Needs `token_file`, which drivers then do without.",
    )
    metrics_need_token: bool = _option("HTTP", False, "Ask for the token at `/metrics` too.")
    live_need_token: bool = _option("HTTP", False, "Ask for the token at `…/live` too.")
    tls_cert_file: Path | None = _option(
        "HTTP",
        None,
        "PEM file with the certificate and its chain: serve HTTPS. Read again when it changes.",
    )
    tls_key_file: Path | None = _option(
        "HTTP", None, "PEM file with the certificate's key, without a passphrase."
    )
    max_request_bytes: _Whole = _option(
        "HTTP",
        MAX_REQUEST_BYTES,
        "Longest request body, plain or unpacked; a longer one gets 413.",
        ge=1024,
        le=1024**3,
    )

    state_dir: Path | None = _option(
        "State",
        None,
        "Directory that keeps counters and what was learned across restarts. Without it they are "
        "in memory only.",
    )
    durability: Literal["normal", "full"] = _option(
        "State",
        "normal",
        "`normal`: an acknowledged event survives a kill of the process; `full`: a power cut of "
        "the machine too, at a disk flush per request.",
    )
    record_file: Path | None = _option(
        "State",
        None,
        "Append every accepted event to this file, for `weir replay`. Where the state lies on the "
        "same disk, 64 MiB are left free for it.",
    )
    record_max_bytes: _Whole = _option(
        "State", 64 * 1024**2, "Size at which the record is put aside as `.1`.", ge=4096
    )
    record_keep: _Whole = _option("State", 5, "How many records put aside are kept.", ge=1, le=1000)

    mode: _ModeWord = _option(
        "Regulation",
        "on",
        "`on` regulates, `dry-run` decides without acting, `off` only measures.",
    )
    target_seconds: _Number = _option(
        "Regulation", 5.0, "How long a micro-batch should take.", gt=0, le=86400
    )
    deadline_seconds: _Number | None = _option(
        "Regulation",
        None,
        "How long a micro-batch may take at most before something kills it. Also what tells a "
        "hung batch from a long one.",
        gt=0,
        le=7 * 86400,
    )
    minimum_limit: _Whole = _option(
        "Regulation", 1, "Never grant less than this, in the source's unit.", ge=1, lt=2**63
    )
    maximum_limit: _Whole | None = _option(
        "Regulation",
        None,
        "Never grant more than this, in the source's unit; a limit set by hand goes where it says.",
        ge=1,
        lt=2**63,
    )
    above_configured: bool = _option(
        "Regulation",
        False,
        "Let a limit go above the one that the job itself configured. What it configured may "
        "protect a database or a heap, so it is never exceeded unasked.",
    )
    late_rows: Literal["hold", "guard", "allow"] = _option(
        "Regulation",
        "guard",
        "What may become of rows later than a query's declared delay, of which smaller batches may "
        "drop more: `guard` makes batches as configured again where rows fall late, and while rows "
        "are not read in the order in which they came; `hold` never makes them smaller in a query "
        "with a watermark, `allow` accepts it.",
    )
    give_limits: Literal["safe", "all"] = _option(
        "Regulation",
        "safe",
        "`safe`: a source of which an option makes a limit lose rows, read others, or let some "
        "wait, is only watched; its note says which option. `all`: it is steered too. "
        "docs/driver.md has the options.",
    )
    stability_margin: _Number = _option(
        "Regulation",
        0.2,
        "Share by which a limit must digest more than what arrives.",
        ge=0,
        le=10,
    )
    stretch_gain: _Number = _option(
        "Regulation",
        0.25,
        "A batch is made longer than the target only while one twice as long brings this share "
        "more rows per second; 0.25 is up to three times its fixed cost. Less digests more where "
        "too much arrives, in longer batches. What only a longer one digests is digested anyway. "
        "Runs that end by themselves take 0.125 at most: no batch of theirs is waited for.",
        gt=0,
        le=1,
    )
    deadline_share: _Number = _option(
        "Regulation", 0.8, "Share of the deadline that a batch may take.", gt=0, le=1
    )
    deadband: _Number = _option(
        "Regulation",
        0.25,
        "A limit is changed when it would move by more than this share; by less where the model "
        "is sure.",
        ge=0,
        lt=1,
    )
    grant_seconds: _Number = _option(
        "Regulation",
        60.0,
        "How long a driver keeps a granted limit without hearing from the agent.",
        ge=15,
        le=LONGEST_LIFE_SECONDS,
    )
    executors: _ModeWord = _option(
        "Regulation",
        "off",
        "`on` asks the cluster for as many executors as an application's queries need, within "
        "`minimum_executors` and `maximum_executors`; `dry-run` and `off` only tell the number. "
        "The most cautious of an application's queries holds for all of it.",
    )
    minimum_executors: _Whole = _option(
        "Regulation", 1, "Never ask for fewer executors than this.", ge=1, lt=2**31
    )
    maximum_executors: _Whole | None = _option(
        "Regulation",
        None,
        "Never ask for more executors than this. A must where `executors` is `on`.",
        ge=1,
        lt=2**31,
    )
    executors_quiet_seconds: _Number = _option(
        "Regulation",
        300.0,
        "Executors are given back when fewer would have done for so long.",
        ge=0,
        le=7 * 86400,
    )
    executors_quiet_hours: _Hours = _option(
        "Regulation",
        "",
        "Hours of the day, in UTC, in which no other number of executors is asked for, as in "
        "`22:00-06:00` or `12:00-13:00,22:00-06:00`.",
    )
    catch_up_seconds: _Number = _option(
        "Regulation",
        600.0,
        "So many executors are wanted that what waits is caught up with in this time.",
        gt=0,
        le=7 * 86400,
    )
    rules: list[RuleSettings] = _option(
        "Regulation",
        [],
        "Overrides for queries whose `query` or `application/query` fits a shell pattern; a later "
        "one wins. Keys: `match`, `mode`, `target_seconds`, `deadline_seconds`, `minimum_limit`, "
        "`maximum_limit`, `above_configured`, `late_rows`, `give_limits`, `stretch_gain`, "
        "`executors`, `minimum_executors`, `maximum_executors`, `executors_quiet_seconds`, "
        "`executors_quiet_hours`, `catch_up_seconds`, `retire_seconds`.",
        max_length=1000,
    )

    silent_seconds: _Number = _option(
        "Queries",
        15.0,
        "Without a word from a driver for this long its queries count as gone.",
        ge=6,
        le=86400,
    )
    forget_seconds: _Number = _option(
        "Queries",
        3600.0,
        "How long the series of a query that its owner stopped stay. What was learned of it is "
        "kept longer, for its next run, while there is room (`max_queries`).",
        ge=0,
        le=30 * 86400,
    )
    retire_seconds: _Number | None = _option(
        "Queries",
        None,
        "How long the series of a query that failed or fell silent stay, and its alerts fire. "
        "Without it, and where something was ordered of it by hand, until somebody retires it "
        "(`weir retire QUERY`).",
        ge=0,
        le=365 * 86400,
    )
    max_queries: _Whole = _option(
        "Queries", 2000, "Most queries known at once; more get 503.", ge=1, le=100_000
    )
    max_sources: _Whole = _option(
        "Queries", 64, "Most sources per query that get series.", ge=1, le=10_000
    )
    max_operators: _Whole = _option(
        "Queries", 32, "Most state operators per query that get series.", ge=1, le=10_000
    )
    labels: dict[str, str] = _option(
        "Queries",
        {},
        "Fixed labels on every series, such as namespace and cluster; those of the file, the "
        "environment and the command line add up.",
        max_length=MAX_LABELS,
    )

    audit_folder_seconds: _Number = _option(
        "Queries",
        600.0,
        "How often a query's checkpoint folder is audited, where it is on a file system of this "
        "machine; also at each start of the query. 0: never.",
        ge=0,
        le=86400,
    )

    spark_ui_hosts: list[_Text] = _option(
        "Queries",
        ["local"],
        "Hosts whose Spark web interface may be asked for stages and tasks: names or shell "
        "patterns. A driver names the address itself, so `local` stands for this machine's own "
        "addresses, and only while the agent listens to this machine alone. Empty: none. On the "
        "command line and in the environment parted by commas.",
        max_length=100,
    )
    event_log_dirs: list[Path] = _option(
        "Queries",
        [],
        "Directories of Spark event logs to follow, for jobs that cannot load the listener: what "
        "they tell is judged and exported, nothing is regulated. On the command line and in the "
        "environment parted by commas.",
        max_length=100,
    )

    doors: _Doors = _option(
        "Queries",
        None,
        "Directory in which drivers with Weir's Spark plugin open their doors; queries behind them "
        "are watched and regulated. Without it the plugin's own default, `weir-USER` in the "
        "machine's temporary directory. `off`: none.",
    )

    kafka_bootstrap_servers: _Text | None = _option(
        "Kafka",
        None,
        "Brokers to ask, between batches, how far the topics reach that queries read: a fresh "
        "backlog, and the time until retention deletes unread rows. Needs the extra `kafka`.",
    )
    kafka_options_file: Path | None = _option(
        "Kafka",
        None,
        "File of `key=value` lines with further options of the client (librdkafka), such as those "
        "of SASL and TLS. What stands there is never logged.",
    )
    kafka_every_seconds: _Number = _option(
        "Kafka", 5.0, "How often the brokers are asked.", ge=1, le=3600
    )
    kafka_partition_series: bool = _option(
        "Kafka", False, "Give each partition's backlog a series of its own."
    )

    kafka_commit_group: _Text | None = _option(
        "Kafka",
        None,
        "Consumer groups in which the offsets of committed batches are put, so that Kafka's own "
        "tools show each query's lag: a name with `{application}` and `{query}` in it, such as "
        "`weir-{application}-{query}`. Never into a group that has members, or offsets of others.",
    )

    driver_process: _DriverProcess = _option(
        "Process",
        "off",
        "Watch the driver's memory and CPU: `auto` takes the process ids that drivers on this "
        "host tell, a number names one process.",
    )
    log_format: Literal["json", "text"] = _option(
        "Process",
        "text",
        "Form of the log lines. `json` tells the level as `level` and, for Google's Cloud Logging, "
        "in capitals as `severity`.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = _option(
        "Process", "info", "Least level that is logged."
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Settings:
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            keys = ("tls_cert_file", "tls_key_file")
            given, missing = keys if self.tls_key_file is None else reversed(keys)
            raise ValueError(f"{given}: a certificate and its key belong together; set {missing}")
        if self.token_file is None:
            for key in ("metrics_need_token", "live_need_token"):
                if getattr(self, key):
                    raise ValueError(f"{key}: there is no token to ask for; set token_file")
            if self.events_token_file is not None:
                raise ValueError(
                    "events_token_file: there is no token that opens more; set token_file too"
                )
        if self.kafka_bootstrap_servers is None and self.kafka_options_file is not None:
            raise ValueError(
                "kafka_options_file: there is nobody to ask; set kafka_bootstrap_servers"
            )
        if self.kafka_commit_group is not None:
            if self.kafka_bootstrap_servers is None:
                raise ValueError(
                    "kafka_commit_group: there is nobody to tell; set kafka_bootstrap_servers"
                )
            try:
                check_pattern(self.kafka_commit_group)
            except ValueError as error:
                raise ValueError(f"kafka_commit_group: {error}") from None
        if self.maximum_limit is not None and self.maximum_limit < self.minimum_limit:
            raise ValueError(
                f"maximum_limit: {self.maximum_limit} is below minimum_limit {self.minimum_limit}"
            )
        for name in self.labels:
            if not LABEL_NAME.match(name):
                raise ValueError(
                    f"labels: {name[:60]!r} cannot be a label: letters, digits and _, "
                    "a letter first"
                )
            if name in reserved_labels():
                raise ValueError(f"labels: {name!r} is a label that Weir sets itself; rename yours")
        for value in self.labels.values():
            if len(value) > MAX_LABEL_VALUE or not value.isprintable():
                raise ValueError(
                    f"labels: {value[:60]!r} cannot be a value: printable, at most "
                    f"{MAX_LABEL_VALUE} characters"
                )
        return self

    def policy(self) -> Policy:
        """The core's part of the settings."""
        return Policy(
            default=QueryPolicy(
                mode=self.mode,
                target_seconds=self.target_seconds,
                deadline_seconds=self.deadline_seconds,
                minimum_limit=self.minimum_limit,
                maximum_limit=self.maximum_limit,
                above_configured=self.above_configured,
                late_rows=self.late_rows,
                give_limits=self.give_limits,
                stability_margin=self.stability_margin,
                stretch_gain=self.stretch_gain,
                deadline_share=self.deadline_share,
                deadband=self.deadband,
                executors=self.executors,
                minimum_executors=self.minimum_executors,
                maximum_executors=self.maximum_executors,
                executors_quiet_seconds=self.executors_quiet_seconds,
                executors_quiet_hours=_minutes(self.executors_quiet_hours),
                catch_up_seconds=self.catch_up_seconds,
                retire_seconds=self.retire_seconds,
            ),
            rules=tuple(map(_rule, self.rules)),
            grant_seconds=self.grant_seconds,
            forget_seconds=self.forget_seconds,
            silent_seconds=self.silent_seconds,
            max_queries=self.max_queries,
            max_sources=self.max_sources,
            max_operators=self.max_operators,
        )


def load(
    flags: Mapping[str, str], environ: Mapping[str, str], config_file: str | None
) -> tuple[Settings, list[str]]:
    """The settings, and notices worth a log line.

    ``flags`` are the command line's, by key (``target_seconds``), as text. ``config_file`` None:
    ``WEIR_CONFIG`` may name one. Raises ConfigError.
    """
    path = config_file or environ.get("WEIR_CONFIG") or None
    variables, notices = _variables(environ)
    layers = [
        {key: _structured(key, text, flag_of(key)) for key, text in flags.items()},
        {key: _structured(key, text, ENV_PREFIX + key.upper()) for key, text in variables.items()},
        {} if path is None else _file(Path(path)),
    ]

    class _Layered(Settings):
        @classmethod
        def settings_customise_sources(
            cls, settings_cls: type[BaseSettings], *_: Any, **__: Any
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return tuple(InitSettingsSource(settings_cls, dict(layer)) for layer in layers)

    def origin(key: str) -> str:
        if key in layers[0]:
            return flag_of(key)
        if key in layers[1]:
            return ENV_PREFIX + key.upper()
        return f"{path}: {key}" if key in layers[2] else key

    try:
        settings = _Layered()
    except ValidationError as error:
        raise ConfigError(_one_line(error, origin)) from None
    if settings.token_file is None and not is_loopback(settings.host):
        raise ConfigError(
            f"{origin('host')}: {settings.host!r} is reachable from other machines and there is "
            "no token: set token_file (or WEIR_TOKEN_FILE), or listen on 127.0.0.1"
        )
    said, filed = (layer.get("state_dir") for layer in layers[1:])
    if "state_dir" not in layers[0] and said and filed and str(said) != str(filed):
        # Weir's image sets it; who did not set it himself would lose what he means to keep.
        notices.append(
            f"{path}: state_dir: {filed} is passed over, as the environment says "
            f"WEIR_STATE_DIR={said}: set that to the former, or unset it"
        )
    # The image's health check knows the environment alone.
    written = address_path(settings.address_file, settings.state_dir)
    told = (variables.get("address_file"), variables.get("state_dir"))
    sought = address_path(*(None if text is None else Path(text) for text in told))
    if sought is not None and sought != written:
        notices.append(
            f"the agent's address is written to {written}, and who goes by the environment, as the "
            f"image's health check does, looks for it in {sought}: set WEIR_ADDRESS_FILE={written}"
        )
    # Watching and limits go on without them.
    for flaw in settings.policy().executors_flaws():
        notices.append(f"{flaw}; until then no executors are asked for where that holds")
    return settings, notices


def address_path(file: Path | None, state_dir: Path | None) -> Path | None:
    """Where the agent writes its address."""
    return state_dir / "agent.address" if file is None and state_dir is not None else file


def flag_of(key: str) -> str:
    """``target_seconds`` on the command line."""
    return "--" + key.replace("_", "-")


def is_loopback(host: str) -> bool:
    """Whether every address of a host name is this machine's own."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return all(ipaddress.ip_address(str(entry[4][0])).is_loopback for entry in found)


def _variables(environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    variables: dict[str, str] = {}
    notices: list[str] = []
    for name, text in sorted(environ.items()):
        if not name.startswith(ENV_PREFIX) or not text:
            continue
        if _SERVICE_LINK.match(name) and (name != "WEIR_PORT" or "://" in text):
            notices.append(f"{name} is a Kubernetes service link, not an option; passed over")
            continue
        key = name[len(ENV_PREFIX) :].lower()
        if key in Settings.model_fields:
            variables[key] = text
        elif name not in FOREIGN_VARIABLES and not name.startswith(FOREIGN_PREFIXES):
            near = near_option(key)
            hint = f"; is {ENV_PREFIX}{near.upper()} meant?" if near else ""
            raise ConfigError(f"{name[:100]}: no such option{hint}")
    return variables, notices


def _structured(key: str, text: str, where: str) -> Any:
    """Texts of the command line and the environment, where an option is more than a text."""
    if key == "labels" and not text.lstrip().startswith("{"):
        pairs = [part.partition("=") for part in text.split(",") if part.strip()]
        if not all(equals for _, equals, _ in pairs):
            raise ConfigError(f"{where}: {text[:100]!r} is not of the form name=value,name=value")
        return {name.strip(): value.strip() for name, _, value in pairs}
    if key in {"event_log_dirs", "spark_ui_hosts"} and not text.lstrip().startswith("["):
        return [part.strip() for part in text.split(",") if part.strip()]
    if key in {"labels", "rules", "event_log_dirs", "spark_ui_hosts"}:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{where}: not JSON: {error}") from None
    return text


class _Loader(yaml.SafeLoader):
    """YAML in which a key that stands twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value[:60]!r} stands twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"--config {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"--config {path}: not UTF-8 text") from None
    try:
        data = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = "" if mark is None else f", line {mark.line + 1}"
        raise ConfigError(f"{path}{place}: not YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())[:200]}") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: a mapping of options is needed, such as `port: 9655`")
    for key in data:
        if not isinstance(key, str) or key not in Settings.model_fields:
            near = near_option(str(key))
            hint = f"; is {near} meant?" if near else ""
            raise ConfigError(f"{path}: {str(key)[:100]!r}: no such option{hint}")
    # null in the file: as if it weren't there
    return {key: value for key, value in data.items() if value is not None}


def near_option(key: str) -> str | None:
    """The option whose name is nearest to a misspelt one; None where none is near."""
    found: Sequence[str] = difflib.get_close_matches(
        key.lower().replace("-", "_"), list(Settings.model_fields), n=1, cutoff=0.75
    )
    return found[0] if found else None


def _one_line(error: ValidationError, origin: Any) -> str:
    details = error.errors(include_url=False)
    first = details[0]
    message = str(first["msg"]).removeprefix("Value error, ")
    place = [str(part) for part in first["loc"]]
    if not place:  # of _fits_together: the message starts with the key
        key, _, rest = message.partition(": ")
        line = f"{origin(key)}: {rest}"
    else:
        inner = [part for part in place[1:] if part not in {"int", "constrained-int"}]
        inner = [part for part in inner if not part.startswith(("literal[", "function-"))]
        path = "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in inner)
        if first["type"] == "extra_forbidden" and place[0] == "rules":
            keys = list(RuleSettings.model_fields)
            near = difflib.get_close_matches(place[-1], keys, n=1)
            hint = f"; is {near[0]} meant?" if near else ""
            return f"{origin(place[0])}{path}: unknown key{hint} (keys: {', '.join(keys)})"
        given = first.get("input")
        shown = "" if isinstance(given, dict | list) else f", not {str(given)[:100]!r}"
        line = f"{origin(place[0])}{path}: {message[:1].lower()}{message[1:]}{shown}"
    others = len({str(detail["loc"][:1]) for detail in details}) - 1
    return line + (f" (and {others} more)" if others else "")


def reserved_labels() -> frozenset[str]:
    """Labels that Weir or Prometheus sets itself."""
    from agent.export.catalogue import METRICS

    return frozenset(label.name for metric in METRICS for label in metric.labels) | {
        "le",
        "quantile",
        "job",  # Prometheus sets these two itself
        "instance",
    }
