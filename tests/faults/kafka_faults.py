"""Faults of Kafka, provoked on a real Spark with a real broker.

Each is called as those of ``provoke`` are, with one more argument: the broker, of which only this
fault knows. Its rows, topics and end are the fault's to do.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.broker import Broker

TOPIC: Final = "orders"
WAIT_SECONDS: Final = 90.0


def read(spark: Any, broker: Broker, topic: str = TOPIC, **options: str) -> Any:
    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
    )
    for key, value in options.items():
        stream = stream.option(key.replace("__", "."), value)
    return stream.load()


def to_nothing(stream: Any, work: Path) -> Any:
    return stream.writeStream.format("noop").option("checkpointLocation", str(work / "ck")).start()


def to_kafka(stream: Any, work: Path, broker: Broker, topic: str, **options: str) -> Any:
    writer = (
        stream.select("value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("topic", topic)
        .option("checkpointLocation", str(work / "ck"))
    )
    for key, value in options.items():
        writer = writer.option(key.replace("__", "."), value)
    return writer.start()


def through_batch(stream: Any, work: Path, write: Any) -> Any:
    return (
        stream.writeStream.option("checkpointLocation", str(work / "ck"))
        .foreachBatch(write)
        .start()
    )


def filled(broker: Broker, rows: int = 500) -> None:
    broker.create_topic(TOPIC, partitions=2)
    broker.produce(TOPIC, (f"row {number}" for number in range(rows)))


def committed(query: Any) -> None:
    """Waits until a batch with rows was committed, or the query has ended."""
    until(
        lambda: not query.isActive or any(p["numInputRows"] for p in query.recentProgress),
        "a batch with rows",
        seconds=WAIT_SECONDS,
        every=0.1,
    )


def kafka_offsets_lost(spark: Any, work: Path, broker: Broker) -> Any:
    """Retention deletes what was not read yet, while the query is down."""
    filled(broker)
    query = to_nothing(read(spark, broker, maxOffsetsPerTrigger="100"), work)
    committed(query)
    query.stop()
    broker.produce(TOPIC, (f"row {number}" for number in range(500)))
    broker.delete_rows_before(TOPIC, broker.end_offsets(TOPIC))
    return to_nothing(read(spark, broker, maxOffsetsPerTrigger="100"), work)


def kafka_topic_made_anew(spark: Any, work: Path, broker: Broker) -> Any:
    """The topic is deleted and made again while the query is down: its offsets start at 0."""
    filled(broker)
    query = to_nothing(read(spark, broker), work)
    committed(query)
    query.stop()
    broker.delete_topic(TOPIC)
    _gone(broker)
    broker.create_topic(TOPIC, partitions=2)
    broker.produce(TOPIC, ["anew"])
    return to_nothing(read(spark, broker), work)


def kafka_topic_deleted(spark: Any, work: Path, broker: Broker) -> Any:
    """The topic goes while the query reads it."""
    filled(broker)
    query = to_nothing(read(spark, broker), work)
    committed(query)
    broker.delete_topic(TOPIC)
    return query


def kafka_topic_missing(spark: Any, work: Path, broker: Broker) -> Any:
    return to_nothing(read(spark, broker, "no-such-topic"), work)


def kafka_address_unknown(spark: Any, work: Path, broker: Broker) -> Any:
    stream = read(spark, broker, kafka__bootstrap__servers="broker.invalid:9092")
    return to_nothing(stream, work)


def kafka_broker_gone(spark: Any, work: Path, broker: Broker) -> Any:
    """The broker dies while the query reads, and does not come back."""
    filled(broker)
    patience = {"kafka__default__api__timeout__ms": "5000", "kafka__request__timeout__ms": "4000"}
    query = to_nothing(read(spark, broker, fetchOffset__numRetries="1", **patience), work)
    committed(query)
    broker.kill()
    return query


def kafka_row_not_text(spark: Any, work: Path, broker: Broker) -> Any:
    """A producer wrote bytes that are no UTF-8."""
    filled(broker, 10)
    broker.produce(TOPIC, [b"\xff\xfe\xfa"])
    return to_nothing(read(spark, broker).selectExpr("decode(value, 'UTF-8') as text"), work)


def kafka_row_not_json(spark: Any, work: Path, broker: Broker) -> Any:
    """A producer wrote a row that does not fit the schema."""
    filled(broker, 10)
    stream = read(spark, broker).selectExpr(
        "from_json(cast(value as string), 'price int', map('mode', 'FAILFAST')) as parsed"
    )
    return to_nothing(stream, work)


def kafka_sink_record_too_large(spark: Any, work: Path, broker: Broker) -> Any:
    """The sink's topic takes only rows smaller than these."""
    filled(broker, 10)
    broker.create_topic("narrow", config={"max.message.bytes": "200"})
    stream = read(spark, broker).selectExpr("repeat(cast(value as string), 500) as value")
    # One row a request: Kafka would split larger ones again and again.
    return to_kafka(stream, work, broker, "narrow", kafka__batch__size="0")


def kafka_sink_topic_missing(spark: Any, work: Path, broker: Broker) -> Any:
    filled(broker, 10)
    return to_kafka(read(spark, broker), work, broker, "nowhere", kafka__max__block__ms="4000")


def kafka_sink_gone(spark: Any, work: Path, broker: Broker) -> Any:
    """What is read comes from elsewhere; the broker that is written to dies."""
    broker.create_topic("out")
    source = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    patience = {
        "kafka__max__block__ms": "4000",
        "kafka__delivery__timeout__ms": "4000",
        "kafka__request__timeout__ms": "3000",
        "kafka__linger__ms": "0",
    }
    query = to_kafka(source.selectExpr("'x' as value"), work, broker, "out", **patience)
    committed(query)
    broker.kill()
    return query


def kafka_transaction_timeout_refused(spark: Any, work: Path, broker: Broker) -> Any:
    """A transactional writer asks for a longer time-out than the broker allows."""
    address = broker.bootstrap

    def write(frame: Any, batch_id: int) -> None:
        from confluent_kafka import Producer

        producer = Producer(
            {
                "bootstrap.servers": address,
                "transactional.id": "orders-writer",
                "transaction.timeout.ms": 3_600_000,  # the broker's maximum is 15 minutes
            }
        )
        producer.init_transactions(20)

    filled(broker, 10)
    return through_batch(read(spark, broker), work, write)


def kafka_transaction_timed_out(spark: Any, work: Path, broker: Broker) -> Any:
    """A transaction stays open for longer than its time-out; the broker aborts it."""
    address = broker.bootstrap

    def write(frame: Any, batch_id: int) -> None:
        from confluent_kafka import Producer

        producer = Producer(
            {
                "bootstrap.servers": address,
                "transactional.id": "orders-writer",
                "transaction.timeout.ms": 1000,
            }
        )
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce(TOPIC, b"x")
        producer.flush(20)
        time.sleep(15.0)  # the broker looks for such transactions every ten seconds
        producer.produce(TOPIC, b"y")
        producer.flush(20)
        producer.commit_transaction(20)

    filled(broker, 10)
    return through_batch(read(spark, broker), work, write)


def kafka_second_writer(spark: Any, work: Path, broker: Broker) -> Any:
    """Another writer takes the same transactional id in the middle of a batch."""
    address = broker.bootstrap

    def write(frame: Any, batch_id: int) -> None:
        from confluent_kafka import Producer

        settings = {"bootstrap.servers": address, "transactional.id": "orders-writer"}
        first = Producer(settings)
        first.init_transactions(20)
        first.begin_transaction()
        first.produce(TOPIC, b"x")
        first.flush(20)
        Producer(settings).init_transactions(20)
        first.commit_transaction(20)

    filled(broker, 10)
    return through_batch(read(spark, broker), work, write)


def _gone(broker: Broker) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while broker.partitions(TOPIC) and time.monotonic() < end:
        time.sleep(0.1)


#: The fault, and the cause that it must get.
KAFKA_FAULTS: Final = (
    (kafka_offsets_lost, "source_data_loss"),
    (kafka_topic_made_anew, "source_data_loss"),
    (kafka_topic_deleted, "source_data_loss"),
    (kafka_topic_missing, "configuration"),
    (kafka_address_unknown, "configuration"),
    (kafka_broker_gone, "external_sink"),
    (kafka_row_not_text, "user_code"),
    (kafka_row_not_json, "user_code"),
    (kafka_sink_record_too_large, "external_sink"),
    (kafka_sink_topic_missing, "configuration"),
    (kafka_sink_gone, "external_sink"),
    (kafka_transaction_timeout_refused, "configuration"),
    (kafka_transaction_timed_out, "external_sink"),
    (kafka_second_writer, "external_sink"),
)
