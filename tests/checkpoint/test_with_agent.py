"""What an agent adds: whether the query lives, what its sink is, and what it can digest."""

import json
import re
import shutil

import pytest

from tests.checkpoint.build import OLD, checkpoint, tree, write
from tests.service import wire
from tests.service.agents import AgentProcess, weir
from tests.waiting import until


@pytest.fixture
def kafka_checkpoint(tmp_path):
    """One of a Kafka query whose id the agent knows."""
    return of_kafka(tmp_path / "ck", committed=3)


def of_kafka(folder, *, committed):
    root = checkpoint(folder, committed=committed)
    shutil.rmtree(root / "sources")
    write(root, "sources/0/0", 'v1\n{"orders":{"0":0}}')
    write(root, "metadata", json.dumps({"id": wire.query_ids(0)[0]}))
    for batch in range(committed + 1):
        head = (root / f"offsets/{batch}").read_text().rsplit("\n", 1)[0]
        offset = json.dumps({"orders": {"0": (batch + 1) * 1000}})
        write(root, f"offsets/{batch}", f"{head}\n{offset}", age=OLD + 10 * batch)
    return root


def of_topic(*arguments, description="KafkaV2[Subscribe[orders]]", **options):
    event = wire.progress(*arguments, **options)
    event["body"]["sources"][0]["description"] = description
    return event


def ended(sequence, *, run=0):
    query_id, run_id = wire.query_ids(0)[0], wire.query_ids(run)[1]
    body = {"id": query_id, "runId": run_id, "exception": "killed", "errorClassOnException": None}
    time = wire.heartbeat(sequence)["time"]
    return {"sequence": sequence, "type": "terminated", "time": time, "body": body}


def test_a_query_that_lives_is_left_alone_and_one_that_ended_is_advised(tmp_path, kafka_checkpoint):
    root = kafka_checkpoint
    (tmp_path / "agent").mkdir()
    with AgentProcess(tmp_path / "agent", token="s3cret") as agent:
        events = [wire.started(1)]
        events += [
            of_topic(n, rows=1000 * n, seconds=1.0 + n / 4, limit=1000 * n) for n in range(2, 9)
        ]
        assert agent.post(wire.request(events)).is_success

        def rescue(*options):
            token = str(tmp_path / "agent" / "token")
            known = ["--agent", agent.address, "--token-file", token, "--json", *options]
            done = weir("rescue", str(root), *known)
            assert done.returncode in (0, 1), done.stderr
            return done.returncode, json.loads(done.stdout)

        before = tree(root)
        code, report = rescue("--apply", "--sink", "upsert", "--deadline", "60")
        assert code == 1
        [refusal] = report["plan"]["refusals"]
        assert refusal["check"] == "checkpoint_held"
        assert "orders/query-0" in refusal["evidence"]
        assert tree(root) == before

        assert agent.post(wire.request([ended(9)])).is_success
        code, report = rescue("--deadline", "60")
        assert code == 1
        assert [one["check"] for one in report["plan"]["refusals"]] == ["sink_may_hold_batch"]
        code, report = rescue("--apply", "--sink", "upsert", "--deadline", "60")
        assert code == 0
        [limit] = report["limits"]
        assert limit["option"] == "maxOffsetsPerTrigger"
        assert limit["learned_from"] == "agent"
        fixed, per_row, seconds = map(float, re.findall(r"([\d.]+) s", limit["detail"])[:3])
        assert fixed + limit["limit"] * per_row == pytest.approx(seconds, rel=0.01)
        # The plant is 1 s + 0.25 ms a row: 48 s hold 188,000 rows, the noise believed less.
        assert 60_000 < limit["limit"] < 188_000

        audit = weir(
            "checkpoint", "audit", str(root), "--json", "--agent", agent.address,
            "--token-file", str(tmp_path / "agent" / "token"),
        )  # fmt: skip
        found = [finding["check"] for finding in json.loads(audit.stdout)["findings"]]
        assert "sink_at_least_once" in found


def test_what_only_the_running_query_tells_is_found_with_the_agent(tmp_path, kafka_checkpoint):
    (tmp_path / "agent").mkdir()
    event = wire.started(1)
    event["body"]["checkpointLocation"] = "/data/checkpoint"
    event["body"]["conf"] = {
        "spark.master": "spark://10.0.0.1:7077",
        "asyncProgressTrackingEnabled": "true",
    }
    with AgentProcess(tmp_path / "agent") as agent:
        assert agent.post(wire.request([event])).is_success

        def audit(*options):
            done = weir("checkpoint", "audit", str(kafka_checkpoint), "--json", *options)
            assert done.returncode in (0, 1), done.stderr
            return [
                (finding["check"], finding["severity"])
                for finding in json.loads(done.stdout)["findings"]
            ]

        told = {("location_not_durable", "error"), ("asynchronous_progress", "warning")}
        assert not told & set(audit())
        known = until(
            lambda: told <= set(found := audit("--agent", agent.address)) and found,
            "what the agent has found",
            every=0.5,
        )
    assert len(known) == len(set(known))


def of_query(application, location, run=0, **conf):
    """The start of a query that has the id of the first, wherever its checkpoint is."""
    event = wire.started(1)
    event["body"] |= {"checkpointLocation": location, "conf": conf, "runId": wire.query_ids(run)[1]}
    return wire.request([event], application=application)


def test_of_two_checkpoints_with_one_id_each_is_its_own_query_s(tmp_path, kafka_checkpoint):
    """A savepoint or a copy that runs beside the original has its id."""
    original, copy = kafka_checkpoint, shutil.copytree(kafka_checkpoint, tmp_path / "copy")
    (tmp_path / "agent").mkdir()
    alone = {"asyncProgressTrackingEnabled": "true"}
    with AgentProcess(tmp_path / "agent", "--silent-seconds", "300") as agent:

        def told(command, root, *options):
            known = ["--json", "--agent", agent.address, *options]
            done = weir(*command.split(), str(root), *known)
            assert done.returncode in (0, 1), done.stderr
            return json.loads(done.stdout)

        def audit(root):
            report = told("checkpoint audit", root)
            return report["query"], {finding["check"] for finding in report["findings"]}

        def held(root):
            refused = told("rescue", root, "--sink", "upsert")["plan"]["refusals"]
            return [one["evidence"] for one in refused if one["check"] == "checkpoint_held"]

        # By name the copy's query comes first.
        assert agent.post(of_query("orders", f"file:{original}")).is_success
        assert agent.post(of_query("a-test", f"file://{copy}", 1, **alone)).is_success
        owner, found = until(
            lambda: "asynchronous_progress" in (seen := audit(copy))[1] and seen,
            "what the agent has found of the copy",
            every=0.5,
        )
        assert owner == "a-test/query-0"
        assert "location_shared" not in found
        owner, found = audit(original)
        assert owner == "orders/query-0"
        assert not found & {"asynchronous_progress", "location_shared"}
        stopped = wire.request([ended(2, run=1)], application="a-test")
        assert agent.post(stopped).is_success
        assert held(copy) == []
        assert len(held(original)) == 1
        # A mount of a store, or a container's path: the id alone tells whose it is.
        elsewhere = shutil.copytree(original, tmp_path / "mount")
        assert len(held(elsewhere)) == 1
        assert audit(elsewhere)[0] == "orders/query-0"
        # Two on one folder are still told, whatever the form of their addresses.
        assert agent.post(of_query("z-job", f"file://{original}", 2)).is_success
        assert len(held(original)) == 2
        assert "location_shared" in audit(original)[1]


def test_a_store_and_a_path_of_it_may_be_one_place(tmp_path, kafka_checkpoint):
    """A query that lives is never taken for another's because its address is of another kind."""
    (tmp_path / "agent").mkdir()
    with AgentProcess(tmp_path / "agent") as agent:
        assert agent.post(of_query("orders", str(kafka_checkpoint))).is_success
        assert agent.post(wire.request([ended(2)])).is_success
        assert agent.post(of_query("renamed", "dbfs:/mnt/ck", 1)).is_success
        done = weir("rescue", str(kafka_checkpoint), "--json", "--agent", agent.address)
    refused = json.loads(done.stdout)["plan"]["refusals"]
    assert "renamed/query-0" in " ".join(one["evidence"] for one in refused)


def test_where_agent_and_checkpoint_differ_both_are_told_and_why(tmp_path):
    root = of_kafka(tmp_path / "ck", committed=5)
    (tmp_path / "agent").mkdir()

    def told(*options):
        done = weir("rescue", str(root), "--json", "--deadline", "60", *options)
        assert done.returncode in (0, 1), done.stderr
        [limit] = json.loads(done.stdout)["limits"]
        return limit

    with AgentProcess(tmp_path / "agent") as agent:
        events = [wire.started(1), ended(2)]
        assert agent.post(wire.request(events)).is_success
        alone, unlearned = told(), told("--agent", agent.address)
        assert unlearned["limit"] == alone["limit"]
        assert "the agent has not learned what a batch of rows takes" in unlearned["detail"]
        events = [
            of_topic(n, rows=1000 * n, seconds=1.0 + n / 4, limit=1000 * n) for n in range(3, 9)
        ]
        assert agent.post(wire.request([*events, ended(9)])).is_success
        both = told("--agent", agent.address)
    assert alone["learned_from"] == "checkpoint"
    assert both["limit"] != alone["limit"]
    reason = alone["detail"].partition("; the batch that did not")[0]
    assert f"; the checkpoint alone would say {alone['limit']:,}: {reason}" in both["detail"]
    assert "held to 4 times the largest batch seen" in reason
    # Other connectors write the same offsets, and Spark passes over an option that they lack.
    doubt = "Event Hubs: eventhubs.maxEventsPerTrigger"
    assert doubt in alone["detail"]
    assert doubt in unlearned["detail"], "no batch has told of a source yet"
    assert doubt not in both["detail"]
    few = weir("rescue", str(of_kafka(tmp_path / "few", committed=1)), "--sink", "upsert").stdout
    assert "no limit known" in few
    assert "Event Hubs" not in few, "no option is named of which it could be said"


def test_no_option_is_named_of_a_connector_that_is_not_known(tmp_path):
    root = of_kafka(tmp_path / "ck", committed=5)
    (tmp_path / "agent").mkdir()
    with AgentProcess(tmp_path / "agent") as agent:
        events = [wire.started(1)]
        for n in range(2, 9):
            told = "org.apache.spark.eventhubs.EventHubsSource@1f2e3d"
            events.append(of_topic(n, rows=1000 * n, seconds=1.0 + n / 4, description=told))
        assert agent.post(wire.request([*events, ended(9)])).is_success
        options = ("--deadline", "60", "--agent", agent.address)
        done = weir("rescue", str(root), "--json", *options)
        said = weir("rescue", str(root), "--sink", "upsert", *options).stdout
    [limit] = json.loads(done.stdout)["limits"]
    assert (limit["limit"], limit["option"]) == (None, "")
    assert "EventHubsSource@1f2e3d is not Spark's Kafka source" in limit["detail"]
    assert "Restart source 0 with: no limit known" in said
    assert "maxOffsetsPerTrigger" not in said


def test_an_agent_that_cannot_be_asked_is_said(tmp_path):
    root = checkpoint(tmp_path / "ck")
    before = tree(root)
    done = weir("rescue", str(root), "--apply", "--sink", "upsert", "--agent", "http://127.0.0.1:9")
    assert done.returncode == 2
    assert "no agent answers" in done.stderr
    assert "Traceback" not in done.stderr
    assert tree(root) == before
