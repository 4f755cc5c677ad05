"""DSPBench's applications for Spark: other people's jobs, in Java, as they are.

Bordin, Griebler, Mencagli, Geyer and Fernandes, "DSPBench: a suite of benchmark applications for
distributed data stream processing systems", IEEE Access 8 (2020); its code is at GMAP/DSPBench, of
which one has a checkout: ``python -m tests.benchmarks.evidence --dspbench FOLDER``. Their classes
are compiled as they stand and run with their own settings, but for the address of the source, its
limit, and a trigger that goes on: theirs reads what there is and ends. Rows are drawn in the form
that their parsers take: their data is too large for a repository and lies beside it.
"""

from __future__ import annotations

import itertools
import random
import shutil
import string
import subprocess
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.benchmarks.evidence.query import BASE_TIME_MS, Topic, time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

#: Made by ``build``.
JAR: Final = Path(__file__).resolve().parents[3] / ".make" / "dspbench.jar"
SOURCES: Final = Path("dspbench-spark/src/main/java")
RESOURCES: Final = Path("dspbench-spark/src/main/resources")
PACKAGE: Final = "spark.streaming"
#: Their source always sets one; this is none.
NO_LIMIT: Final = 2**31 - 1


@dataclass(frozen=True)
class Application:
    """One of theirs: its class and the prefix of its settings, what it is.

    ``last``: of the rows that it printed, those that stay what they are wherever a batch ends; None
    where none do.
    """

    topics: tuple[str, ...]
    name: str
    prefix: str
    what: str
    last: Callable[[Iterable[str]], list[str]] | None = None


def _final_counts(printed: Iterable[str]) -> list[str]:
    """Of ``[word,count]`` each word's largest."""
    counts: dict[str, int] = {}
    for line in printed:
        word, _, count = line.strip("[]").rpartition(",")
        counts[word] = max(counts.get(word, 0), int(count))
    return [f"{word},{count}" for word, count in sorted(counts.items())]


QUERIES: Final = {
    "wordcount": Application(
        ("books",),
        "WordCount",
        "wc",
        "DSPBench's word count: a state for every word",
        _final_counts,
    ),
    "spikedetection": Application(
        ("sensors",),
        "SpikeDetection",
        "sd",
        "DSPBench's spike detection: moving averages by sensor",
    ),
    "machineoutlier": Application(
        ("machines",), "MachineOutlier", "mo", "DSPBench's machine outlier: scores, without state"
    ),
}
TOPICS: Final = {
    topic: Topic("value STRING", "", 1) for query in QUERIES.values() for topic in query.topics
}


def build(checkout: Path) -> None:
    """Their classes, and the files that these read, as a jar. Raises ValueError, with a line."""
    import pyspark

    from tests.kafka.broker import connector

    javac = shutil.which("javac")
    if javac is None:
        raise ValueError(
            "javac is missing (Debian, Ubuntu: apt-get install openjdk-17-jdk-headless)"
        )
    folder = checkout / SOURCES / PACKAGE.replace(".", "/") / "application"
    sources = [str(folder / f"{query.name}.java") for query in QUERIES.values()]
    if not all(Path(source).exists() for source in sources):
        raise ValueError(f"{checkout} is no checkout of https://github.com/GMAP/DSPBench")
    of_spark = Path(pyspark.__file__).parent / "jars"
    of_kafka = connector(pyspark.__version__).replace(",", ":")
    with tempfile.TemporaryDirectory() as made:
        done = subprocess.run(
            [
                *(javac, "-nowarn", "-classpath", f"{of_spark}/*:{of_kafka}"),
                # Loaded by name, so that no other class names them.
                *("-sourcepath", str(checkout / SOURCES), "-d", made, *sources),
                *(
                    str(checkout / SOURCES / PACKAGE.replace(".", "/") / kind)
                    for kind in ("source/KafkaSource.java", "sink/ConsoleSink.java")
                ),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ValueError(f"javac: {done.stderr.strip()}")
        JAR.parent.mkdir(exist_ok=True)
        partial = JAR.with_suffix(".new")
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as jar:
            for root in (Path(made), checkout / RESOURCES):
                for path in sorted(root.rglob("*")):
                    if path.is_file():
                        jar.write(path, path.relative_to(root))
        partial.replace(JAR)


def start(spark: SparkSession, query: Application, given: dict[str, Any]) -> StreamingQuery:
    """The application's own query, on its own settings but those of ``given``; in the driver."""
    from pyspark.sql.streaming import StreamingQuery

    java = spark._jvm
    assert java is not None
    settings = java.java.util.Properties()
    stream = (
        java.Thread.currentThread()
        .getContextClassLoader()
        .getResourceAsStream(f"config/{query.name.lower()}.properties")
    )
    settings.load(stream)
    stream.close()
    (topic,) = query.topics
    for key, value in {
        "source.class": f"{PACKAGE}.source.KafkaSource",
        "kafka.zookeeper.host": given["bootstrap"],
        "kafka.source.topic": given["topics"][topic],
        "batch.size": str(given["limits"].get(topic, NO_LIMIT)),
    }.items():
        settings.setProperty(f"{query.prefix}.{key}", value)
    settings.setProperty("metrics.output", given["metrics"])
    streaming = java.spark.streaming
    config = streaming.util.Configuration.fromProperties(settings)
    application = getattr(streaming.application, query.name)(query.name, config)
    application.initialize()
    writer = (
        application.buildApplication()
        .queryName(given["query"])
        .option("checkpointLocation", given["checkpoint"])
        .trigger(java.org.apache.spark.sql.streaming.Trigger.ProcessingTime(0))
    )
    return StreamingQuery(writer.start())


class Generator:
    """Rows of an application's topic, one after the other, in the form that its parser takes."""

    def __init__(self, topics: Sequence[str], seed: int) -> None:
        (self._topic,) = topics
        self._random = random.Random(f"dspbench {seed}")
        self._draw = {
            "books": self._line,
            "sensors": self._reading,
            "machines": self._usage,
        }[self._topic]
        draw = self._random
        # Words as often as in any language: the second half as often as the first (Zipf 1949).
        self._words = ["".join(draw.choices(string.ascii_lowercase, k=6)) for _ in range(WORDS)]
        self._often = list(itertools.accumulate(1 / rank for rank in range(1, WORDS + 1)))

    def row(self, time_ms: int) -> tuple[str, bytes]:
        """The topic and its next row; ``time_ms`` since the epoch."""
        return self._topic, self._draw(time_ms).encode()

    def endless(self) -> Iterator[tuple[str, bytes]]:
        """Rows whose times do not matter much: a thousand for each second."""
        for number in itertools.count():
            yield self.row(BASE_TIME_MS + number)

    def _line(self, time_ms: int) -> str:
        found = self._random.choices(self._words, cum_weights=self._often, k=WORDS_OF_A_LINE)
        return " ".join(found)

    def _reading(self, time_ms: int) -> str:
        """As Intel's laboratory in Berkeley told them (2004): 54 motes, about 20 degrees."""
        draw, (date, _, time) = self._random, time_text(time_ms).partition("T")
        return (
            f"{date} {time[:12]} {time_ms // 31_000 % 65_536} {draw.randrange(1, MOTES + 1)} "
            f"{draw.gauss(20.0, 2.0):.4f} {draw.gauss(38.0, 5.0):.4f} "
            f"{draw.choice((11.04, 45.08, 121.44))} {draw.gauss(2.65, 0.05):.5f}"
        )

    def _usage(self, time_ms: int) -> str:
        """As Alibaba's traces of 2018 have it: of each of 4,000 machines, every ten seconds."""
        draw = self._random
        return (
            f"m_{draw.randrange(MACHINES)},{time_ms // 10_000 * 10},{draw.randrange(5, 100)},"
            f"{draw.randrange(20, 99)},,,{draw.uniform(20, 60):.2f},{draw.uniform(20, 60):.2f},"
            f"{draw.randrange(1, 20)}"
        )


WORDS, WORDS_OF_A_LINE = 20_000, 10
MOTES, MACHINES = 54, 4_000
