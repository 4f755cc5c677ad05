"""A stop that Spark 3 tells as a failure, in a function of Python, and failures that look like one.

The first two texts are of PySpark 3.5.9, cut down to what is read of them.
"""

from __future__ import annotations

import pytest

from agent.core.judge.failure.stop import told_as_failure

RUN = "04829434-767e-4d13-b4c2-e45ce8932223"
OTHER = "8168dc4d-02cc-4ddd-996c-96667d928b88"
CANCELLED = "org.apache.spark.SparkException: Job 7 cancelled part of cancelled job group "
IN_TASK = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 4.0 failed "
    "1 times, most recent failure: Lost task 0.0 in stage 4.0 (TID 9) (10.0.0.1 executor 1): "
)
INTERRUPTED = (
    "org.apache.spark.SparkException: Job aborted.\n\tat a.Writer.write(Writer.scala:1)\n"
    "Caused by: java.lang.InterruptedException\n\tat java.base/java.lang.Object.wait(Object.java:1)"
)


def in_python(java: str) -> str:
    """As Spark 3.5 tells what a function of Python was thrown by the JVM."""
    return (
        "py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: "
        "Traceback (most recent call last):\n"
        '  File "/opt/py4j-src.zip/py4j/clientserver.py", line 617, in _call_proxy\n'
        "    return_value = getattr(self.pool[obj_id], method)(*params)\n"
        '  File "/app/job.py", line 9, in write\n    frame.write.save("/out")\n'
        '  File "/opt/py4j-src.zip/py4j/protocol.py", line 326, in get_return_value\n'
        "    raise Py4JJavaError(\n"
        "py4j.protocol.Py4JJavaError: An error occurred while calling o44.save.\n"
        f": {java}\n\n\n"
        "\tat py4j.Protocol.getReturnValue(Protocol.java:476)\n"
        "\tat com.sun.proxy.$Proxy30.call(Unknown Source)\n"
    )


@pytest.mark.parametrize(
    "exception",
    [
        in_python(f"{CANCELLED}{RUN}\n\tat a.B.c(B.java:1)"),
        in_python(INTERRUPTED),
        in_python("java.io.InterruptedIOException: Interrupted waiting to send to the namenode"),
        in_python("java.nio.channels.ClosedByInterruptException\n\tat a.B.c(B.java:1)"),
        in_python(
            "java.io.InterruptedIOException: Interrupted while waiting for IO on channel "
            "java.nio.channels.SocketChannel[connected]. 60000 millis timeout left."
        ),
        in_python(
            "org.apache.spark.SparkException: Job 7 cancelled Query events [id = "
            f"{OTHER}, runId = {RUN}] was stopped"
        ),
        in_python(f"{IN_TASK}TaskKilled (Stage cancelled: {CANCELLED[34:]}{RUN})"),
    ],
)
def test_what_a_stop_throws_in_a_function_of_python_is_a_stop(exception: str) -> None:
    assert told_as_failure(exception, run_id=RUN, spark_version="3.5.9")
    # Spark 4 tells none of a stop: what it tells was none.
    assert not told_as_failure(exception, run_id=RUN, spark_version="4.0.0")
    assert not told_as_failure(exception, run_id=RUN, spark_version="")


@pytest.mark.parametrize(
    "exception",
    [
        in_python(f"{CANCELLED}{OTHER}"),  # what somebody else cancelled
        in_python("org.apache.spark.SparkException: Job 7 cancelled because SparkContext was shut"),
        in_python(f"{IN_TASK}java.lang.InterruptedException\n\tat a.B.c(B.java:1)"),
        in_python("java.io.InterruptedIOException: timeout\n\tat okhttp3.RealCall.exit(R.kt)"),
        in_python("java.net.SocketTimeoutException: Read timed out"),
        in_python("java.io.InterruptedIOException: executor rejected"),
        in_python(f"java.io.IOException: /out/{RUN} is not empty"),
        f"{CANCELLED}{RUN}",  # of a function of the JVM Spark 3.5 knows its stop
        "java.lang.InterruptedException",
        "",
    ],
)
def test_what_fails_otherwise_stays_a_failure(exception: str) -> None:
    assert not told_as_failure(exception, run_id=RUN, spark_version="3.5.9")
