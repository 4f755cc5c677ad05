"""The spiral on a real Spark: a supervisor kills slow batches, under a fixed limit and under Weir.

``python -m tests.benchmarks.supervised [--seconds 380] [--svg docs/images/spiral.svg]`` runs one
load twice, side by side. More files arrive for a while than one core digests; each row waits a
little, as for a service it calls. A supervisor stops the query when a batch has run longer than the
deadline and starts it again, as an operator's script would. In one run the limit is fixed and Weir
only watches; in the other Weir regulates. Prints when the alarm came, when the first time-out, and
what was committed; draws both.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = 90.0
TARGET_SECONDS = 15.0
#: Files a second: calm, then more than can be digested at the cost of small batches, then calm.
ROWS_PER_FILE = 50
ROW_SECONDS = 0.004
CALM, BUSY = 1.0, 7.5
BUSY_FROM, BUSY_UNTIL = 0.1, 0.85
LIMIT_FILES = 600
ALARMS = ("spiralling", "timing_out", "dead")


def job(work: Path, address: str, seconds: float) -> None:
    """In the driver: the query, what feeds it, and its supervisor."""
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import udf

    from spark_listener import attach

    spark = (
        SparkSession.builder.master("local[1]")
        .appName("supervised")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.weir.agent.url", address)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    attach(spark, agent_url=address)
    source = work / "in"
    source.mkdir()

    @udf("long")
    def work_on(value: int) -> int:
        time.sleep(ROW_SECONDS)
        return value

    stream = spark.readStream.schema("value long").option("maxFilesPerTrigger", LIMIT_FILES)
    text = '{"value": 1}\n' * ROWS_PER_FILE

    def start() -> Any:
        return (
            stream.json(str(source))
            .select(work_on("value").alias("v"))
            .writeStream.queryName("prices")
            .format("noop")
            .option("checkpointLocation", str(work / "ck"))
            .start()
        )

    def put(number: int) -> None:
        path = source / f".{number:06d}.json"
        path.write_text(text)
        path.rename(source / f"{number:06d}.json")

    # A first batch pays for code generation and Python's workers, for minutes on a busy machine:
    # the load begins when that is done.
    query = start()
    written = 0
    while written < 4:
        put(written)
        written += 1
        query.processAllAvailable()
    began = last = time.monotonic()
    due = float(written)
    print(json.dumps({"began": time.time()}), flush=True)
    running_since: tuple[str, int, float] | None = None
    while (now := time.monotonic()) - began < seconds:
        part = (now - began) / seconds
        due += (BUSY if BUSY_FROM <= part < BUSY_UNTIL else CALM) * (now - last)
        last = now
        while written < due:
            put(written)
            written += 1
        context = query._jsq.streamingQuery().getLatestExecutionContext()
        batch = int(context.batchId())
        if running_since is None or running_since[:2] != (str(query.runId), batch):
            running_since = (str(query.runId), batch, now)
        elif (
            query.status["isTriggerActive"]
            and query.status["isDataAvailable"]
            and now - running_since[2] > DEADLINE_SECONDS
        ):
            print(json.dumps({"killed": batch, "time": time.time()}), flush=True)
            query.stop()
            time.sleep(3.0)
            query = start()
            running_since = None
        time.sleep(0.1)
    query.stop()
    time.sleep(1.0)
    os._exit(0)


def run(seconds: float, mode: str) -> dict[str, Any]:
    """One run under an agent of its own; what the agent recorded, replayed into judgements."""
    work = Path(tempfile.mkdtemp(prefix="weir-spiral-"))
    children: list[subprocess.Popen[bytes]] = []
    try:
        record, address_file = work / "events.jsonl", work / "address"
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "WEIR_PORT": "0",
            "WEIR_MODE": "on" if mode == "weir" else "dry-run",
            "WEIR_TARGET_SECONDS": str(TARGET_SECONDS),
            "WEIR_DEADLINE_SECONDS": str(DEADLINE_SECONDS),
            "WEIR_RECORD_FILE": str(record),
            "WEIR_ADDRESS_FILE": str(address_file),
        }
        log = (work / "log").open("wb")
        weir = Path(sys.executable).with_name("weir")
        children.append(
            subprocess.Popen([str(weir), "agent"], env=environment, stdout=log, stderr=log)
        )
        end = time.monotonic() + 30
        while not address_file.exists() and time.monotonic() < end:
            time.sleep(0.1)
        address = address_file.read_text().strip()
        driver = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.benchmarks.supervised",
                "--job",
                str(work),
                address,
                "--seconds",
                str(seconds),
            ],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
        children.append(driver)
        out, _ = driver.communicate(timeout=seconds + 180)
        view = httpx.get(f"{address}/v1/queries/supervised/prices", timeout=10).json()
        said = [json.loads(line) for line in out.splitlines() if line.startswith(b'{"')]
        return {
            "began": next((one["began"] for one in said if "began" in one), 0.0),
            "killed": [one for one in said if "killed" in one],
            "events": record.read_text(),
            "view": view,
            "log": (work / "log").read_text(errors="replace")[-3000:],
        }
    finally:
        for child in children:
            try:
                family = psutil.Process(child.pid).children(recursive=True)
            except psutil.NoSuchProcess:
                family = []
            for process in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            child.kill()
            child.wait()
        shutil.rmtree(work, ignore_errors=True)


def judged(events: str) -> list[dict[str, Any]]:
    """The core over the recorded events: a line per judgement, with its event's rows and time."""
    import msgspec

    from agent.core.decode.events import Application, Listener, Request, decode_event
    from agent.core.fleet import Fleet
    from agent.core.policy import Policy, QueryPolicy
    from spark_listener.wire import parse_time

    policy = Policy(
        default=QueryPolicy(
            mode="dry-run", target_seconds=TARGET_SECONDS, deadline_seconds=DEADLINE_SECONDS
        )
    )
    fleet = Fleet(policy, started_time=0.0)
    found = []
    for number, line in enumerate(events.splitlines(), 1):
        data = json.loads(line)
        if "type" not in data:
            continue
        event = decode_event(data, number)
        request = Request(Application("a", "supervised"), Listener("one"), [(0, event)], [])
        for one in fleet.receive(request, event.time).judged:
            said = msgspec.to_builtins(one)
            said["seconds"] = None
            if data["type"] == "progress":
                said["seconds"] = (
                    data["body"].get("durationMs", {}).get("triggerExecution", 0) / 1e3
                )
                said["rows"] = data["body"].get("numInputRows")
            said["epoch"] = parse_time(one.time)
            found.append(said)
    return found


def summary(name: str, ran: dict[str, Any]) -> dict[str, Any]:
    """When the alarm came and when the first time-out, in batches too."""
    lines = judged(ran["events"])
    began = ran["began"]
    batches = [one for one in lines if one["event"] == "progress" and one.get("rows")]
    alarm = next((one for one in lines if one["spiral"]["phase"] in ALARMS), None)
    first_kill = ran["killed"][0]["time"] if ran["killed"] else None
    lead = None
    if alarm is not None and first_kill is not None:
        between = [b for b in batches if alarm["epoch"] < b["epoch"] < first_kill]
        lead = len(between) + 1 if alarm["epoch"] < first_kill else 0
    backlog = [(b["epoch"] - began, b["backlog_rows"] or 0.0) for b in batches]
    return {
        "run": name,
        "timeouts": len(ran["killed"]),
        "first_timeout_seconds": None if first_kill is None else round(first_kill - began, 1),
        "first_alarm_seconds": None if alarm is None else round(alarm["epoch"] - began, 1),
        "lead_batches": lead,
        "committed_rows": sum(b["rows"] for b in batches),
        "longest_batch_seconds": max((b["seconds"] for b in batches), default=None),
        "batches": [
            (round(b["epoch"] - began, 2), b["seconds"]) for b in batches if b["epoch"] >= began
        ],
        "backlog": backlog,
        "kills": [round(k["time"] - began, 1) for k in ran["killed"]],
        "evidence": None if alarm is None else alarm["spiral"]["evidence"],
    }


def draw(fixed: dict[str, Any], weir: dict[str, Any], seconds: float) -> str:
    """Both runs as one SVG: the duration of each batch over time, the deadline, the events."""
    width, height, left, bottom = 760.0, 340.0, 56.0, 44.0
    top = DEADLINE_SECONDS * 1.25

    def x(second: float) -> float:
        return left + (width - left - 16) * min(second / seconds, 1.0)

    def y(value: float) -> float:
        return height - bottom - (height - bottom - 40) * min(value / top, 1.0)

    def line(points: list[tuple[float, float]], colour: str) -> str:
        path = " ".join(f"{x(t):.1f},{y(v):.1f}" for t, v in points)
        dots = "".join(
            f'<circle cx="{x(t):.1f}" cy="{y(v):.1f}" r="2.4" fill="{colour}"/>' for t, v in points
        )
        return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>{dots}'

    red, blue, grey = "#c0392b", "#1f6fb2", "#777777"
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
            'font-family="sans-serif" font-size="12" role="img" aria-label="Seconds a batch takes '
            "over time: with a fixed limit it grows until the supervisor kills it; with Weir it "
            'does not">'
        ),
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
    ]
    parts += [
        f'<line x1="{left}" x2="{width - 16}" y1="{y(value):.1f}" y2="{y(value):.1f}" '
        f'stroke="#e4e4e4"/><text x="{left - 8}" y="{y(value) + 4:.1f}" text-anchor="end" '
        f'fill="{grey}">{value}</text>'
        for value in range(0, int(top) + 1, 20)
    ]
    parts += [
        f'<text x="{x(second):.1f}" y="{height - bottom + 18:.1f}" text-anchor="middle" '
        f'fill="{grey}">{second}</text>'
        for second in range(0, int(seconds) + 1, 30)
    ]
    busy = (BUSY_FROM * seconds, BUSY_UNTIL * seconds)
    parts.append(
        f'<rect x="{x(busy[0]):.1f}" y="40" width="{x(busy[1]) - x(busy[0]):.1f}" '
        f'height="{height - bottom - 40:.1f}" fill="#000000" opacity="0.05"/>'
        f'<text x="{x(busy[0]) + 6:.1f}" y="54" fill="{grey}">more arrives</text>'
    )
    parts.append(
        f'<line x1="{left}" x2="{width - 16}" y1="{y(DEADLINE_SECONDS):.1f}" '
        f'y2="{y(DEADLINE_SECONDS):.1f}" stroke="{red}" stroke-dasharray="6 4"/>'
        f'<text x="{width - 18}" y="{y(DEADLINE_SECONDS) - 6:.1f}" text-anchor="end" fill="{red}">'
        "deadline</text>"
    )
    parts.append(line(fixed["batches"], red))
    parts.append(line(weir["batches"], blue))
    parts += [
        f'<text x="{x(second):.1f}" y="{y(DEADLINE_SECONDS) + 5:.1f}" text-anchor="middle" '
        f'fill="{red}" font-size="16">✕</text>'
        for second in fixed["kills"]
    ]
    alarm = fixed["first_alarm_seconds"]
    if alarm is not None:
        parts.append(
            f'<line x1="{x(alarm):.1f}" x2="{x(alarm):.1f}" y1="64" y2="{height - bottom:.1f}" '
            f'stroke="#b8860b" stroke-width="1.5"/><text x="{x(alarm) - 5:.1f}" y="76" '
            f'text-anchor="end" fill="#8a6508">alarm</text>'
        )
    parts.append(
        f'<text x="{left}" y="22" fill="{red}">● fixed limit: {fixed["timeouts"]} killed (✕)'
        f'</text><text x="{left + 270}" y="22" fill="{blue}">● Weir regulates: {weir["timeouts"]} '
        "killed</text>"
        f'<text x="{width / 2:.0f}" y="{height - 8:.0f}" text-anchor="middle" fill="{grey}">'
        "seconds since the start; each dot is a committed batch, its height the seconds it took"
        "</text></svg>"
    )
    return "\n".join(parts) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=380.0)
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--job", nargs=2, metavar=("WORK", "ADDRESS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        job(Path(arguments.job[0]), arguments.job[1], arguments.seconds)
        return 0
    found = {}
    names = ("fixed", "weir")
    with ThreadPoolExecutor() as pool:
        both = list(pool.map(lambda name: run(arguments.seconds, name), names))
    for name, ran in zip(names, both, strict=True):
        if not ran["events"]:
            print(ran["log"])
            return 1
        found[name] = summary(name, ran)
        shown = {k: v for k, v in found[name].items() if k not in ("batches", "backlog", "kills")}
        print(json.dumps(shown), flush=True)
    if arguments.svg:
        arguments.svg.parent.mkdir(parents=True, exist_ok=True)
        arguments.svg.write_text(draw(found["fixed"], found["weir"], arguments.seconds), "utf-8")
    fixed, weir = found["fixed"], found["weir"]
    led = fixed["lead_batches"] is not None and fixed["lead_batches"] >= 1
    return 0 if fixed["timeouts"] and led and not weir["timeouts"] else 1


if __name__ == "__main__":
    sys.exit(main())
