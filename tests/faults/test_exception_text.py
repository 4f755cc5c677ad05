"""An exception's text is taken apart into the chain of what caused what."""

from __future__ import annotations

from agent.core.judge.failure.exception_text import LONGEST_TEXT, chain_of


def names(text: str) -> list[str]:
    return [link.name for link in chain_of(text)]


def test_caused_by_goes_deeper() -> None:
    text = (
        "a.b.OuterException: it failed\n\tat a.b.C.run(C.java:1)\n"
        "Caused by: a.b.InnerException: because\nof this\n\tat java.base/d.e.F.go(F.java:2)\n"
        "\t... 36 more\n"
    )
    outer, inner = chain_of(text)
    assert (outer.name, outer.message, outer.java) == (
        "a.b.OuterException",
        "it failed",
        ["a.b.C.run"],
    )
    assert (inner.simple, inner.message, inner.java) == (
        "InnerException",
        "because\nof this",
        ["d.e.F.go"],
    )


def test_an_executors_exception_in_the_drivers_message_is_a_cause_of_it() -> None:
    text = (
        "org.apache.spark.SparkException: Job aborted due to stage failure: Task 7 in "
        "stage 4.0 failed 4 times: Lost task 7.3 in stage 4.0 (TID 13, 10.0.0.1, executor 1): "
        "java.util.concurrent.ExecutionException: org.x.TimeoutException: no answer\n"
        "\tat org.x.Reader.get(Reader.java:3)\n\nDriver stacktrace:\n"
        "\tat org.apache.spark.scheduler.DAGScheduler.abort(DAGScheduler.scala:1)\n"
        "Caused by: org.x.TimeoutException: no answer\n"
    )
    chain = chain_of(text)
    assert [link.simple for link in chain] == [
        "SparkException",
        "ExecutionException",
        "TimeoutException",
        "TimeoutException",
    ]
    assert chain[0].java == ["org.apache.spark.scheduler.DAGScheduler.abort"]
    assert chain[2].java == ["org.x.Reader.get"]


def test_python_prints_the_cause_above_what_it_caused() -> None:
    for between in (
        "The above exception was the direct cause of the following exception:",
        "During handling of the above exception, another exception occurred:",
    ):
        text = (
            'Traceback (most recent call last):\n  File "/app/job.py", line 3, in connect\n'
            "    raise OSError\nConnectionRefusedError: [Errno 111] Connection refused\n\n"
            f"{between}\n\n"
            'Traceback (most recent call last):\n  File "/app/job.py", line 9, in write\n'
            "    send(rows)\nrequests.exceptions.ConnectionError: no route\n"
        )
        outer, inner = chain_of(text)
        assert outer.name == "requests.exceptions.ConnectionError"
        assert outer.python == ["/app/job.py:write"]
        assert inner.name == "ConnectionRefusedError"
        assert inner.message == "[Errno 111] Connection refused"


def test_java_within_python_within_java() -> None:
    text = (
        "py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: "
        "Traceback (most recent call last):\n"
        '  File "/app/job.py", line 31, in write\n    frame.write.jdbc(url)\n'
        "py4j.protocol.Py4JJavaError: An error occurred while calling o62.jdbc.\n"
        ": java.sql.SQLException: no\n\tat org.h2.Driver.connect(Driver.java:3)\n"
        "Caused by: java.net.ConnectException: Connection refused\n\n"
        "\tat org.apache.spark.sql.execution.streaming.sources.ForeachBatchSink.addBatch(F:1)\n"
    )
    assert names(text) == [
        "py4j.Py4JException",
        "py4j.protocol.Py4JJavaError",
        "java.sql.SQLException",
        "java.net.ConnectException",
    ]


def test_what_is_no_cause_is_passed_over() -> None:
    text = (
        "org.apache.spark.sql.streaming.StreamingQueryException: it ended\n"
        "=== Streaming Query ===\nIdentifier: q\nLogical Plan:\nx.y.ZException: in a literal\n"
        "\tat a.b.C.run(C.java:1)\n"
        "\tSuppressed: x.y.CloseException: while closing\n\t\tat x.y.Z.close(Z.java:1)\n"
        "\tCaused by: x.y.DeepException: of the closing\n"
        "Caused by: a.b.RealException: this\n"
    )
    assert [link.simple for link in chain_of(text)] == ["StreamingQueryException", "RealException"]


def test_hadoop_puts_a_servers_class_in_brackets() -> None:
    text = "org.apache.hadoop.ipc.RemoteException(org.x.SafeModeException): Cannot create /a\n"
    inner = chain_of(text)[-1]
    assert (inner.name, inner.message) == ("org.x.SafeModeException", "Cannot create /a")


def test_a_text_that_is_cut_or_no_exception_has_a_chain_too() -> None:
    assert len(chain_of("")) == 1
    assert chain_of("nobody knows")[0].message == "nobody knows"
    cut = "a.b.OuterException: it failed\n\tat a.b.C.run(C.java:1)\nCaused by: a.b.Inn"
    assert len(chain_of(cut)) == 2
    assert sum(len(link.message) for link in chain_of("x" * 100_000)) <= LONGEST_TEXT
