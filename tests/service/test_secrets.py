"""What a driver without redaction lets slip is shown, kept and logged nowhere: a real agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.leaks import LEAKS, SECRET
from tests.service import wire
from tests.service.agents import AgentProcess

if TYPE_CHECKING:
    from pathlib import Path

SHAPES = (
    f"jdbc:sqlserver://db;user=sa;password={SECRET};encrypt=true",
    f'KafkaV2[Subscribe[x]] sasl.jaas.config=y required password="{SECRET}";',
    f"s3a://AKID:{SECRET}/y@bucket/path",
    f"AccountName=a;AccountKey={SECRET}==;EndpointSuffix=x",
    # What is shown of a failure is the line that tells, here without the name.
    f'conf.set("a.password",\n    "{SECRET}"): Connection refused',
    "\n\tat a.b(c)\nCaused by: y: ".join(text for text, _ in LEAKS),
)


def test_no_secret_of_an_event_is_shown_kept_or_logged(tmp_path: Path) -> None:
    record, state = tmp_path / "record.jsonl", tmp_path / "state"
    options = ("--record-file", str(record), "--state-dir", str(state), "--log-level", "debug")
    with AgentProcess(tmp_path, *options) as agent:
        sequence = 0
        for number, shape in enumerate(SHAPES):
            begun = wire.started(sequence + 1, query=number)
            begun["body"] |= {"sink": shape, "checkpointLocation": shape, "uiUrl": shape}
            begun["body"]["conf"] = {"a": shape, "spark.x.password": SECRET}
            ran = wire.progress(sequence + 2, query=number)
            ran["body"]["sources"][0]["description"] = shape
            ran["body"]["sink"]["description"] = shape
            ran["limits"][0]["note"] = shape
            ended = {**begun, "sequence": sequence + 3, "type": "terminated"}
            ids = {key: begun["body"][key] for key in ("id", "runId")}
            ended["body"] = {
                **ids,
                "exception": f"java.sql.X: {shape}\n\tat a.b(c)\nCaused by: y: {shape}",
                "errorClassOnException": shape,
            }
            assert agent.post(wire.request([begun, ran, ended])).json()["accepted"] == 3
            sequence += 3
        shown = [
            agent.http.get(path).text
            for path in ("/", "/v1/queries", "/v1/queries/orders/query-0", "/metrics")
        ]
        assert agent.stop() == 0
    assert "query-0" in shown[1]
    for text in (*shown, agent.log_path.read_text(), record.read_text()):
        assert SECRET not in text, text[max(0, text.find(SECRET) - 200) :][:300]
    assert "encrypt=true" in record.read_text()
    for file in state.rglob("*"):
        assert SECRET.encode() not in file.read_bytes(), file
