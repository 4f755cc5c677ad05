"""The command ``weir``.

Exit codes: 0 done; 1 could not, such as an agent that does not answer; 2 wrong usage or input, such
as an unknown query or option. What went wrong is one line on standard error. Parts are imported
where they are used, so that each command starts quickly.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast

import typer

from agent import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.client import AgentClient, ClientSettings
    from agent.core.policy import Policy

#: Where neither option nor WEIR_AGENT_URL names an agent; agent.client has the same.
_DEFAULT_URL: Final = "http://127.0.0.1:9655"

_NOT_A_SOCKET: Final = 10038  # WSAENOTSOCK

#: The base of all that typer raises for a wrong command line; some versions carry click inside.
_CommandLineError: Final[Any] = next(
    base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException"
)


class WrongUsage(Exception):  # noqa: N818
    """The command line asks for what cannot be. One line."""


app = typer.Typer(
    name="weir",
    help="Watch Spark Structured Streaming queries, and set how much each takes into a batch.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    # Help as wide as the terminal is; click stops at 80.
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": sys.maxsize},
)

Url = Annotated[
    str,
    typer.Option(
        "--url", "--agent", envvar="WEIR_AGENT_URL", help="Where the agent is.", metavar="URL"
    ),
]
TokenFile = Annotated[
    str | None,
    typer.Option(
        "--token-file", envvar="WEIR_TOKEN_FILE", help="File with the token.", metavar="FILE"
    ),
]
CaFile = Annotated[
    str | None,
    typer.Option(
        "--ca-file",
        envvar="WEIR_CA_FILE",
        help="Certificates to trust instead of the system's.",
        metavar="FILE",
    ),
]
Deadline = Annotated[
    float | None,
    typer.Option(
        "--deadline", "--deadline-seconds", metavar="SECONDS", help="What kills a slow batch."
    ),
]
_TARGET = typer.Option(
    "--target", "--target-seconds", metavar="SECONDS", help="What a batch should take."
)
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", help="Say nothing on standard error but errors: no progress, no summary."
    ),
]
Why = Annotated[str, typer.Option("--reason", "-r", help="Why, for the log.", metavar="TEXT")]
Who = Annotated[
    str, typer.Option("--who", help="Who, for the log; else the user's name.", metavar="NAME")
]
Application = Annotated[
    str | None,
    typer.Option(
        "--application",
        "-a",
        help="The application; QUERY is then the query's name alone, slashes and all.",
        metavar="NAME",
    ),
]
QueryArgument = Annotated[
    str,
    typer.Argument(metavar="QUERY", help="query, application/query, or a shell pattern of either."),
]


@app.callback(invoke_without_command=True)
def _main(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(f"weir {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise WrongUsage("a command is needed; see weir --help")


@app.command(
    "agent",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
def _agent(context: typer.Context) -> None:
    """Run the agent; `weir agent --help` lists its options."""
    from agent.service.reference import parse

    flags, config_file = parse(context.args)
    from agent.service.config import ConfigError
    from agent.service.run import run

    try:
        run(flags, os.environ, config_file)
    except ConfigError as error:
        _fail(str(error), 2)


@app.command("top")
def _top(
    url: Url = _DEFAULT_URL,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    *,
    once: Annotated[bool, typer.Option("--once", help="Print one frame and end.")] = False,
    refresh: Annotated[
        float, typer.Option("--refresh", min=0.2, max=60.0, help="Seconds between two looks.")
    ] = 2.0,
) -> None:
    """Watch an agent in the terminal."""
    from agent.client import AgentUnavailable, WrongUse
    from agent.export.top import run_top

    try:
        run_top(_settings(url, token_file, ca_file), once=once, refresh_seconds=refresh)
    except WrongUse as error:
        _fail(str(error), 2)
    except AgentUnavailable as error:
        _fail(str(error), 1)


@app.command("mode", short_help="What the agent may do to a query, or to all: the kill switch.")
def _mode(
    *,
    mode: Annotated[
        str, typer.Argument(metavar="off|dry-run|on", help="What the agent may do to the query.")
    ],
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY", show_default=False, help="As with hold; without it every query."
        ),
    ] = "*",
    application: Application = None,
    reason: Why = "",
    who: Who = "",
    url: Url = _DEFAULT_URL,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """Set the mode of a query, of those a pattern fits, or of all: the kill switch.

    `on` by a pattern, or for all, leaves a query to the rule that gives it a mode; by the query's
    own name it stands above the rule.
    """
    if mode not in ("off", "dry-run", "on"):
        raise WrongUsage(f"mode: {mode!r} is none of off, dry-run, on")
    settings = _settings(url, token_file, ca_file)
    _order(settings, application, query, order={"mode": mode}, reason=reason, who=who)


@app.command("hold")
def _hold(
    *,
    query: QueryArgument,
    application: Application = None,
    reason: Why = "",
    who: Who = "",
    url: Url = _DEFAULT_URL,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """Leave the limit of a query as it is, until released."""
    settings = _settings(url, token_file, ca_file)
    _order(settings, application, query, order={"hold": True}, reason=reason, who=who)


@app.command("release")
def _release(
    *,
    query: QueryArgument,
    application: Application = None,
    reason: Why = "",
    who: Who = "",
    url: Url = _DEFAULT_URL,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """End a hold, or a limit set by hand."""
    settings = _settings(url, token_file, ca_file)
    _order(settings, application, query, order={"hold": False}, reason=reason, who=who)


@app.command("limit")
def _limit(
    *,
    query: QueryArgument,
    limit: Annotated[
        int,
        typer.Argument(metavar="N", min=1, help="Most of a batch from each source of that unit."),
    ],
    unit: Annotated[
        str | None,
        typer.Option(
            "--unit", "-u", metavar="rows|files|bytes", help="Else that of the source read most."
        ),
    ] = None,
    application: Application = None,
    reason: Why = "",
    who: Who = "",
    url: Url = _DEFAULT_URL,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """Set a query's limit by hand, until released."""
    if unit not in (None, "rows", "files", "bytes"):
        raise WrongUsage(f"--unit: {unit!r} is none of rows, files, bytes")
    order: dict[str, Any] = {"limit": limit} | ({"unit": unit} if unit else {})
    settings = _settings(url, token_file, ca_file)
    _order(settings, application, query, order=order, reason=reason, who=who)


@app.command("retire")
def _retire(
    *,
    query: QueryArgument,
    application: Application = None,
    reason: Why = "",
    who: Who = "",
    url: Url = _DEFAULT_URL,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """Let go of a query that is gone for good, and of its alerts."""
    settings = _settings(url, token_file, ca_file)
    _order(settings, application, query, order={"retire": True}, reason=reason, who=who)


@app.command("plugin")
def _plugin() -> None:
    """Print the path of the Spark plugin, for `spark-submit --jars`."""
    from spark_listener.plugin.__main__ import main as tell

    if tell() != 0:
        raise typer.Exit(1)


@app.command("replay", short_help="Judge recorded events and event logs: a line of JSON for each.")
def _replay(
    *,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Recorded events, event logs, or folders of these; - is standard input.",
        ),
    ],
    target: Annotated[float | None, _TARGET] = None,
    deadline: Deadline = None,
    maximum_executors: Annotated[
        int | None,
        typer.Option("--maximum-executors", metavar="N", help="Never want more executors."),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="Decide as an agent with this configuration, its rules too."
            " Options go before its defaults.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Judge recorded events, plain or compressed: one line of JSON each; a summary at the end."""
    from msgspec.structs import replace

    from agent.core.policy import Policy
    from agent.replay import replay_files
    from agent.replay_summary import Summary
    from agent.sources.recording import RecordingError

    _check_seconds(target, deadline)
    if maximum_executors is not None and maximum_executors < 1:
        raise WrongUsage(f"--maximum-executors: {maximum_executors}: a number from 1 is needed")
    policy = Policy() if config is None else _policy_of(config)
    given = {
        "target_seconds": target,
        "deadline_seconds": deadline,
        "maximum_executors": maximum_executors,
    }
    told = {key: value for key, value in given.items() if value is not None}
    policy = replace(policy, default=replace(policy.default, **told))
    summary = None if quiet else Summary()
    try:
        broken = replay_files(files, policy, sys.stdout.buffer, summary)
    except RecordingError as error:
        _fail(str(error), 2)
    except OSError as error:
        if _of_output(error):
            raise
        _fail(f"{error.filename or 'recording'}: {error.strerror or error}", 2)
    else:
        for line in summary.lines() if summary is not None else ():
            _say(line)
        if broken:
            _fail("; ".join(broken), 1)


def _policy_of(config: str) -> Policy:
    """What an agent with this configuration decides by; the environment has no say in it."""
    from agent.service.config import ConfigError, load

    try:
        settings, notices = load({}, {}, config)
        for notice in notices:
            _say(f"weir: {notice}")
        return settings.policy()
    except ConfigError as error:
        raise WrongUsage(str(error)) from None


@app.command("compare", short_help="Hold what dry-run decided against what happened.")
def _compare(
    *,
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY", show_default=False, help="As with hold; without it every query."
        ),
    ] = "*",
    recordings: Annotated[
        list[str] | None,
        typer.Option(
            "--recording",
            metavar="FILE",
            help="What an agent recorded, in place of an agent's last batches; repeatable.",
        ),
    ] = None,
    target: Annotated[float | None, _TARGET] = None,
    deadline: Deadline = None,
    as_json: AsJson = False,
    url: Url = _DEFAULT_URL,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """Hold what Weir decided in dry-run against what happened, by an agent's last batches.

    With --recording, by all that it recorded, and with the target that you consider.
    """
    from agent import compare_command
    from agent.client import AgentUnavailable, WrongUse
    from agent.core.policy import QueryPolicy
    from agent.sources.recording import RecordingError

    _check_seconds(target, deadline)
    if not recordings and (target is not None or deadline is not None):
        raise WrongUsage("--target and --deadline go with --recording: the agent has its own")
    broken: list[str] = []
    try:
        if recordings:
            settings = QueryPolicy(deadline_seconds=deadline)
            if target is not None:
                settings = QueryPolicy(target_seconds=target, deadline_seconds=deadline)
            found, broken = compare_command.of_recordings(recordings, settings, query)
            if not found:
                _fail(f"no query {query!r} in it", 2)
        else:
            found = compare_command.of_agent(_settings(url, token_file, ca_file), query)
    except (RecordingError, WrongUse) as error:
        _fail(str(error), 2)
    except AgentUnavailable as error:
        _fail(str(error), 1)
    except OSError as error:
        if _of_output(error):
            raise
        _fail(f"{error.filename or 'recording'}: {error.strerror or error}", 2)
    else:
        if as_json:
            import msgspec

            from agent.files import write_json

            write_json(msgspec.json.encode(found))
        else:
            compare_command.show(found, sys.stdout)
        if broken:
            _fail("; ".join(broken), 1)


@app.command("simulate", short_help="Try a controller on a synthetic query; a summary as JSON.")
def _simulate(
    *,
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO.json", help="What the plant does.")],
    controller: Annotated[
        str,
        typer.Option(
            "--controller", metavar="weir|static|pid|flip183|oracle", help="Who sets the limit."
        ),
    ] = "weir",
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of the noise.")] = 0,
    events_out: Annotated[
        str | None,
        typer.Option(
            "--events-out", metavar="FILE", help="Write the events as a driver would send them."
        ),
    ] = None,
) -> None:
    """Try a controller on a synthetic query; prints a summary as JSON."""
    from agent.simulation.run import CONTROLLERS, CannotSimulate, simulate_file

    if controller not in CONTROLLERS:
        known = ", ".join(CONTROLLERS)
        raise WrongUsage(f"--controller: {controller!r} is none of {known}")
    try:
        summary = simulate_file(scenario, controller, seed, events_out)
    except CannotSimulate as error:
        _fail(str(error), 2)
    else:
        sys.stdout.write(summary + "\n")


@app.command("history", short_help="Judge event logs of any size, on Spark: tables and a report.")
def _history(
    *,
    logs: Annotated[
        list[str],
        typer.Argument(metavar="LOGS...", help="Event logs or folders of them, as Spark reads."),
    ],
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Tables and report go here.")],
    target: Annotated[float, _TARGET] = 5.0,
    deadline: Deadline = None,
    master: Annotated[
        str | None,
        typer.Option(
            "--master", metavar="MASTER", help="Where Spark runs; else as configured, or local[*]."
        ),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark's; repeatable."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Judge Spark event logs of any size on Spark: tables, a report, and the limits to have."""
    _check_seconds(target, deadline)
    settings = _pairs("--conf", conf)
    from agent.history.command import CannotRun, Options, history

    options = Options(
        logs=logs,
        out=out,
        target_seconds=target,
        deadline_seconds=deadline,
        master=master,
        conf=settings,
        quiet=quiet,
    )
    try:
        code = history(options)
    except CannotRun as error:
        _fail(str(error), 2)
    else:
        raise typer.Exit(code)


checkpoint_app = typer.Typer(help="Look into a query's checkpoint.", add_completion=False)
app.add_typer(checkpoint_app, name="checkpoint")

CheckpointArgument = Annotated[
    str, typer.Argument(metavar="DIR", help="The query's checkpoint location.")
]


@checkpoint_app.command(
    "inspect", short_help="What it holds, whether it is sound, what a restart does next."
)
def _checkpoint_inspect(
    *,
    directory: CheckpointArgument,
    as_json: AsJson = False,
    quiet: Quiet = False,
    deep: Annotated[
        bool, typer.Option("--deep", help="Compare the checksums of the state's files too.")
    ] = False,
    state_rows: Annotated[
        bool,
        typer.Option(
            "--state-rows",
            help="Count the rows in each partition of the state, too: starts a Spark 4 to read it.",
        ),
    ] = False,
) -> None:
    """Tell what a checkpoint holds, whether it is sound, and what a restart does next."""
    from agent.checkpoint.commands import inspect

    _on_checkpoint(
        lambda: inspect(directory, as_json=as_json, deep=deep, state_rows=state_rows, quiet=quiet)
    )


@app.command("savepoint", short_help="Copy a checkpoint, verified, at its newest commit.")
def _savepoint(
    *,
    directory: CheckpointArgument,
    destination: Annotated[
        str | None,
        typer.Argument(
            metavar="DEST",
            show_default=False,
            help="Where to; must be empty or not there. Without it DIR is a savepoint, and"
            " --rollback-sink tells of it.",
        ),
    ] = None,
    rollback_sink: Annotated[
        str | None,
        typer.Option(
            "--rollback-sink",
            metavar="DIR",
            help="Tell what to move aside in a file sink so that it ends at the same batch, as it"
            " is now: ask again with the query stopped.",
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Take a verified copy of a checkpoint at its newest commit, while the query runs."""
    from agent.checkpoint.savepoint_command import savepoint

    _on_checkpoint(
        lambda: savepoint(
            directory, destination, rollback_sink=rollback_sink, as_json=as_json, quiet=quiet
        )
    )


@app.command("rescue")
def _rescue(
    *,
    directory: CheckpointArgument,
    apply: Annotated[bool, typer.Option("--apply", help="Do it; else a dry run.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take the last rescue back.")] = False,
    sink: Annotated[
        str | None,
        typer.Option(
            "--sink",
            metavar="upsert|file|none|append",
            help="What the query writes to: rows by key, whatever the batch's id (so not Hudi's"
            " streaming sink); Spark's file sink; nothing that lasts; or anything else.",
        ),
    ] = None,
    sink_path: Annotated[
        str | None,
        typer.Option("--sink-path", metavar="DIR", help="A file sink's folder, to be asked."),
    ] = None,
    accept_duplicates: Annotated[
        bool,
        typer.Option(
            "--accept-duplicates",
            help="Go on although the sink may hold part of the batch: those rows come twice, or,"
            " where the sink passes over batch ids it has (such as Delta, Iceberg, Hudi), new"
            " ones are lost."
            " Refused where a file sink's log has the batch.",
        ),
    ] = False,
    unchanged: Annotated[
        float,
        typer.Option(
            "--unchanged-seconds",
            metavar="SECONDS",
            min=0,
            help="Refuse if files changed this recently.",
        ),
    ] = 60.0,
    deadline: Annotated[
        float | None,
        typer.Option(
            "--deadline",
            "--deadline-seconds",
            metavar="SECONDS",
            min=0.001,
            help="What the next batch must fit into.",
        ),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option("--agent", "--url", metavar="URL", help="An agent that knows the query."),
    ] = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Re-plan a batch that cannot finish, with the query stopped."""
    from agent.checkpoint.sink import SINK_KINDS

    if sink is not None and sink not in SINK_KINDS:
        raise WrongUsage(f"--sink: {sink!r} is none of {', '.join(SINK_KINDS)}")
    from agent.checkpoint.rescue_command import RescueOptions, rescue

    options = RescueOptions(
        apply=apply,
        undo=undo,
        sink=cast("Any", sink or "unknown"),
        sink_path=sink_path,
        accept_duplicates=accept_duplicates,
        unchanged_seconds=unchanged,
        deadline_seconds=deadline,
        agent=_settings(agent, token_file, ca_file) if agent else None,
        as_json=as_json,
        quiet=quiet,
    )
    _on_checkpoint(lambda: rescue(directory, options))


@checkpoint_app.command("audit", short_help="What speaks against exactly once.")
def _checkpoint_audit(
    *,
    directory: CheckpointArgument,
    agent: Annotated[
        str | None,
        typer.Option("--agent", "--url", metavar="URL", help="An agent that knows the query."),
    ] = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="KEY=VALUE",
            help="An option that the job gives its source or sink, such as"
            " kafka.isolation.level=read_committed; repeatable.",
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Tell what speaks against exactly once: source, sink, location, logs, state."""
    from agent.checkpoint.audit_command import run_audit

    options = _pairs("--option", option)
    settings = _settings(agent, token_file, ca_file) if agent else None
    _on_checkpoint(
        lambda: run_audit(directory, agent=settings, as_json=as_json, options=options, quiet=quiet)
    )


def _check_seconds(target: float | None, deadline: float | None) -> None:
    for option, seconds in (("--target", target), ("--deadline", deadline)):
        if seconds is not None and not 0.0 < seconds < float("inf"):
            raise WrongUsage(f"{option}: {seconds:g}: a number of seconds above 0 is needed")


def _pairs(option: str, given: list[str] | None) -> dict[str, str]:
    """What a repeatable option of the form KEY=VALUE said."""
    pairs = {}
    for one in given or []:
        key, separator, value = one.partition("=")
        if not separator or not key:
            raise WrongUsage(f"{option}: {one!r} is not KEY=VALUE")
        pairs[key] = value
    return pairs


def _on_checkpoint(act: Callable[[], int]) -> None:
    from agent.checkpoint.folder import CheckpointError

    try:
        code = act()
    except CheckpointError as error:
        _fail(str(error), 2)
    else:
        raise typer.Exit(code)


def main() -> None:
    """Runs the command and exits with its code.

    Where the reader of its output has left, as ``head`` does, it ends by SIGPIPE, as others do: the
    code would tell of a check that was not printed. A full disk is one line, and code 1.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # where a locale has no such sign, ? stands for it
    try:
        code = _run()
        if sys.stdout is not None:
            sys.stdout.flush()  # else the interpreter does, and exits with 120 where it cannot
    except (ImportError, AttributeError, OSError) as error:
        if _lacks(error):
            _say(f"weir: this command runs on Linux, on macOS and in WSL, not on Windows ({error})")
            raise SystemExit(1) from None
        if not isinstance(error, OSError) or not _of_output(error):
            raise
        code = 1
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left in a buffer
        if error.errno == errno.EPIPE:
            code = _end_by_sigpipe()
        else:
            _say(f"weir: {error.filename or 'the output'} cannot be written: {error.strerror}")
    raise SystemExit(code)


def _lacks(error: Exception) -> bool:
    """Whether it tells of what Windows has not: locks, user names, a select of no sockets."""
    if os.name != "nt":
        return False
    if isinstance(error, ImportError):
        return error.name in ("fcntl", "pwd", "resource", "termios")
    if isinstance(error, AttributeError):
        return getattr(error.obj, "__name__", "") in ("os", "posix", "signal", "select")
    return getattr(error, "winerror", None) == _NOT_A_SOCKET


def _of_output(error: OSError) -> bool:
    """Whether it tells of what was written, and not of what was read."""
    return error.errno in (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _end_by_sigpipe() -> int:
    """Ends the process; the shell's code for it where the signal does not, as of a PID 1."""
    number = getattr(signal, "SIGPIPE", None)
    if number is not None:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    return 141


def _run() -> int:
    try:
        code = app(prog_name="weir", standalone_mode=False)
    except typer.Exit as error:
        code = error.exit_code
    except WrongUsage as error:
        _say(f"weir: {error}")
        code = 2
    except _CommandLineError as error:
        context = getattr(error, "ctx", None)
        _say(f"{context.command_path if context else 'weir'}: {error.format_message()}")
        code = 2
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # typer would exit with 1
            raise error.__context__ from None
        raise
    return code if isinstance(code, int) else 0


def _order(
    settings: ClientSettings,
    application: str | None,
    query: str,
    *,
    order: dict[str, Any],
    reason: str,
    who: str,
) -> None:
    from agent.client import AgentClient, AgentUnavailable, WrongUse, user_name
    from agent.core.names import first_line, label

    readings = [(application, query)] if application is not None else _readings(query)
    if application is None and "/" not in query and not any(mark in query for mark in "*?["):
        # The pattern is ours, not the user's: what is misspelt must not be an order for later.
        order = {**order, "must_exist": True}
    try:
        with AgentClient(settings) as client:
            application, query = readings[0] if len(readings) == 1 else _known(client, readings)
            done = client.control(
                application, query, {**order, "reason": reason, "who": who or user_name()}
            )
    except WrongUse as error:
        _fail(str(error), 2)
    except AgentUnavailable as error:
        _fail(str(error), 1)
    try:
        for one in done.get("orders", []):
            names = "/".join(label(str(one.get(key))) for key in ("application", "query"))
            note = f" ({first_line(str(one['note']))})" if one.get("note") else ""
            typer.echo(f"{names}: {label(str(one.get('what')))}{note}")
    finally:  # it was done, whoever reads that
        _say(f"weir: told the agent at {client.url}")  # WEIR_AGENT_URL may have named it long ago


def _readings(query: str) -> list[tuple[str, str]]:
    """Application and query of ``application/query``, of each slash that may part them."""
    if "/" not in query:
        return [("*", query)]
    parts = query.split("/")
    cuts = (("/".join(parts[:at]), "/".join(parts[at:])) for at in range(1, len(parts)))
    found = [(application, name) for application, name in cuts if application and name]
    if not found:
        raise WrongUsage(f"QUERY: {query!r} is neither query nor application/query")
    return found


def _known(client: AgentClient, readings: list[tuple[str, str]]) -> tuple[str, str]:
    """The one reading by which the agent knows a query: another one may be somebody else's."""
    from fnmatch import fnmatchcase

    views = client.queries().get("queries", ())
    keys = {(str(one["application"]), str(one["query"])) for one in views}
    found = [
        reading
        for reading in readings
        if reading in keys or any(all(map(fnmatchcase, key, reading)) for key in keys)
    ]
    if len(found) != 1:
        said = "may be queries of several applications" if found else "is no query that is known"
        text = "/".join(readings[0])
        raise WrongUsage(f"QUERY: {text!r} {said}: give its application with --application")
    return found[0]


def _settings(url: str, token_file: str | None, ca_file: str | None) -> ClientSettings:
    from agent.client import ClientSettings

    return ClientSettings(url=url, token_file=token_file, ca_file=ca_file)


def _fail(message: str, code: Literal[1, 2]) -> None:
    _say(f"weir: {message}")
    raise typer.Exit(code)


def _say(message: str) -> None:
    from agent.core.names import plain

    # Where nobody hears it (no standard error, a full disk) what was done stands all the same.
    with contextlib.suppress(OSError, AttributeError):
        sys.stderr.write(plain(" ".join(message.split())) + "\n")


if __name__ == "__main__":
    main()
