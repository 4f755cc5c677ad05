"""Where code on a stack belongs: connectors by their packages, Spark by its own, else the user's.

A frame says where it was thrown from; the innermost that says anything holds. Names are matched
from their beginning or behind a dot, so that a package moved into another jar (``shaded.…``,
``kafkashaded.…``, ``org.apache.hudi.org.apache.http``) is still known.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

# -- connectors -------------------------------------------------------------------------------

#: Packages of connectors and clients of services that a query reads from or writes to, and which
#: of the two where neither the names nor the rest of the stack tell: what it is mostly used for.
CONNECTORS: Final[tuple[tuple[str, str, str], ...]] = (
    ("Kafka", "source", "org.apache.kafka org.apache.spark.sql.kafka010 org.apache.spark.streaming.kafka"),
    ("Kafka", "sink", "cimpl confluent_kafka kafka.errors kafka.producer aiokafka"),
    ("schema registry", "source", "io.confluent za.co.absa.abris io.apicurio com.amazonaws.services.schemaregistry"),
    ("Event Hubs", "source", "com.microsoft.azure.eventhubs org.apache.spark.eventhubs org.apache.spark.sql.eventhubs com.azure.messaging.eventhubs azure.eventhub org.apache.qpid.proton com.azure.core.amqp com.microsoft.azure.servicebus"),
    ("Kinesis", "source", "org.apache.spark.sql.kinesis org.apache.spark.sql.connector.kinesis org.apache.spark.streaming.kinesis amazonaws.services.kinesis awssdk.services.kinesis com.amazonaws.services.dynamodbv2.streamsadapter"),
    ("Pub/Sub", "source", "com.google.cloud.pubsub com.google.cloud.pubsublite com.google.pubsub google.cloud.pubsub org.apache.spark.streaming.pubsub"),
    ("Pulsar", "source", "org.apache.pulsar org.apache.spark.sql.pulsar io.streamnative"),
    ("RabbitMQ", "source", "com.rabbitmq pika amqpstorm"),
    ("MQTT", "source", "org.eclipse.paho org.apache.bahir"),
    ("JMS", "source", "javax.jms org.apache.activemq com.ibm.mq com.solacesystems"),
    ("SQS", "source", "org.apache.spark.sql.streaming.sqs com.qubole.spark amazonaws.services.sqs awssdk.services.sqs com.databricks.sql.aqs"),
    ("Auto Loader", "source", "com.databricks.sql.fileNotification com.databricks.sql.cloudfiles com.databricks.sql.streaming.CloudFiles"),
    ("Cosmos DB", "sink", "com.microsoft.azure.cosmosdb com.microsoft.azure.documentdb com.azure.cosmos azure.cosmos"),
    ("Cassandra", "sink", "com.datastax org.apache.cassandra cassandra"),
    ("Elasticsearch", "sink", "org.elasticsearch org.opensearch elasticsearch opensearchpy elastic_transport co.elastic"),
    ("MongoDB", "sink", "com.mongodb org.mongodb pymongo org.bson"),
    ("Redis", "sink", "redis.clients com.redislabs io.lettuce redis redis.exceptions org.redisson"),
    ("HBase", "sink", "org.apache.hadoop.hbase org.apache.phoenix happybase"),
    ("DynamoDB", "sink", "amazonaws.services.dynamodbv2 awssdk.services.dynamodb com.audienceproject.spark.dynamodb"),
    ("Kudu", "sink", "org.apache.kudu"),
    ("Neo4j", "sink", "org.neo4j neo4j"),
    ("InfluxDB", "sink", "com.influxdb org.influxdb influxdb"),
    ("Solr", "sink", "org.apache.solr com.lucidworks"),
    ("Couchbase", "sink", "com.couchbase"),
    ("Aerospike", "sink", "com.aerospike aerospike"),
    ("ClickHouse", "sink", "com.clickhouse ru.yandex.clickhouse xenon.clickhouse clickhouse_driver clickhouse_connect com.github.housepower"),
    ("Druid and Pinot", "sink", "org.apache.druid org.apache.pinot"),
    ("StarRocks and Doris", "sink", "com.starrocks org.apache.doris"),
    ("SingleStore", "sink", "com.singlestore com.memsql"),
    ("Kusto", "sink", "com.microsoft.kusto com.microsoft.azure.kusto azure.kusto"),
    ("Snowflake", "sink", "net.snowflake snowflake"),
    ("BigQuery", "sink", "com.google.cloud.bigquery com.google.cloud.spark.bigquery com.google.cloud.hadoop.io.bigquery google.cloud.bigquery com.google.api.services.bigquery"),
    ("Redshift", "sink", "com.databricks.spark.redshift io.github.spark_redshift com.amazon.redshift spark_redshift_community"),
    ("Synapse", "sink", "com.databricks.spark.sqldw com.microsoft.spark.sqlanalytics"),
    ("SQL Server", "sink", "com.microsoft.sqlserver com.microsoft.azure.sqldb com.microsoft.jdbc pymssql pyodbc"),
    ("PostgreSQL", "sink", "org.postgresql psycopg2 psycopg asyncpg pg8000 com.impossibl.postgres"),
    ("MySQL", "sink", "com.mysql org.mariadb pymysql MySQLdb mysql.connector"),
    ("Oracle", "sink", "oracle.jdbc oracle.net oracledb cx_Oracle"),
    ("a database over JDBC", "sink", "java.sql javax.sql com.ibm.db2 com.zaxxer.hikari org.apache.commons.dbcp org.apache.commons.dbcp2 com.mchange com.vertica com.teradata com.sap.db com.facebook.presto io.trino org.h2 org.apache.derby org.hsqldb org.apache.hive.jdbc net.sourceforge.jtds com.zaxxer org.apache.spark.sql.jdbc sqlalchemy sqlite3 org.sqlite org.apache.ignite scalikejdbc slick org.hibernate"),
    ("Delta", "sink", "org.apache.spark.sql.delta io.delta com.databricks.sql.transaction.tahoe delta"),
    ("Iceberg", "sink", "org.apache.iceberg pyiceberg"),
    ("Hudi", "sink", "org.apache.hudi com.uber.hoodie"),
    ("Paimon", "sink", "org.apache.paimon"),
    ("Hive", "sink", "org.apache.hadoop.hive org.apache.spark.sql.hive com.hortonworks.hwc org.apache.thrift com.qubole.spark.hiveacid"),
    ("SFTP and FTP", "sink", "com.springml.spark.sftp com.jcraft.jsch paramiko ftplib org.apache.commons.net.ftp"),
    ("e-mail", "sink", "javax.mail smtplib"),
)
#: Clients that reach services of any kind, in the user's code above all. Where the stack above
#: them tells nothing, a batch function or row writer is taken to write, and a function to ask.
_CLIENTS: Final = (
    "requests urllib urllib3 http.client httpx aiohttp boto3 botocore google.api_core "
    "google.auth google.cloud azure.core azure.storage azure.identity grpc okhttp3 retrofit2 "
    "org.apache.http org.apache.hc sttp akka.http java.net.http socket ssl "
    "com.slack slack_sdk twilio hvac com.sendgrid"
)
#: Storage that anything may lie on: checkpoint, source or sink. The stack above it tells.
STORAGES: Final = (
    "org.apache.hadoop com.amazonaws software.amazon com.google.cloud.hadoop "
    "com.google.cloud.storage com.azure.storage com.microsoft.azure.storage com.azure.core "
    "com.ibm.stocator com.databricks.s3commit com.databricks.backend.daemon io.minio alluxio "
    "com.emc.object org.jets3t shaded.databricks"
)


def _packages(words: str) -> str:
    return "|".join(re.escape(word) for word in sorted(words.split(), key=len, reverse=True))


_CONNECTOR_RE: Final = re.compile(
    "(?:^|(?<=[.]))(?:"
    + "|".join(
        f"(?P<c{number}>(?:{_packages(words)})(?=[.$]))"
        for number, (_, _, words) in enumerate(CONNECTORS)
    )
    + ")"
)
_CLIENT_RE: Final = re.compile(rf"(?:^|(?<=[.]))(?:{_packages(_CLIENTS)})(?=[.$])")

#: What the names of a connector's own classes and methods say of which way the data went.
_WRITES: Final = re.compile(
    r"Writ|writ|Sink|Producer|producer|Sender|Send|send|Bulk|bulk|Upsert|upsert|Insert|insert"
    r"|saveTo|Save|\.save|Commit(?!t?edOffset)|commitTransaction|Publisher|Ingest|ingest|Upload|Merge"
    r"|createRelation|addBatch|Append|append|execute_?batch|executeBatch|zadd|\.set$|Marker"
    r"|RecordAccumulator|Transaction(?!alOffset)"
)
_READS: Final = re.compile(
    r"Read|read(?!y|resolve)|Source|Consum|consum|Receiver|receive|MicroBatchStream|MicrobatchStream|Scan"
    r"|ChangeFeed|InputPartition|getOffset|latestOffset|planInput|RDD\w*\.compute|RDDIterator"
    r"|OffsetReader|Fetch|Query|query|Poll|poll|Subscri|subscri|ConsumerStrategy|getRecords|list"
)

# -- Spark itself -----------------------------------------------------------------------------

_S: Final = r"org\.apache\.spark\."
_X: Final = r"org\.apache\.spark\.sql\.execution\."
_T: Final = r"org\.apache\.spark\.sql\.execution\.streaming\."

#: (place, whether it holds at once, frames). One that does not hold at once is told by what stands
#: around most of the work; a further frame that does hold is believed instead.
FRAMES: Final[tuple[tuple[str, bool, str], ...]] = (
    # An iterator of the state's stage is on the stack of all that is read below it.
    ("", False, rf"{_T}state\.(?:StateStoreRDD|StateStoreAware|package)"),
    (
        "state",
        True,
        rf"{_T}state\.|{_T}operators\.stateful\.\w*StateManager|\w+\.execution\.streaming\.state\."
        rf"|{_T}StreamingSymmetricHashJoin\w*State|{_T}\w*StateManager|(?:.*\.)?\w*RocksDb?StateStore",
    ),
    ("state", False, r"org\.rocksdb\."),
    (
        "sink",
        True,
        rf"{_T}(?:\w+\.)*(?:FileStreamSink(?:Log)?|ManifestFileCommitProtocol|MetadataLogFileIndex)\b"
        rf"|{_X}datasources\.(?:FileFormatWriter|FileFormatDataWriter|\w*OutputWriter"
        rf"|SingleDirectoryDataWriter|DynamicPartition\w*|InsertInto\w+|BasicWrite\w+)"
        rf"|{_X}datasources\.\w+\.\w*(?:OutputWriter|WriteSupport)"
        rf"|{_S}internal\.io\.\w*Commit\w*|org\.apache\.hadoop\.mapred\w*\.lib\.output"
        rf"|org\.apache\.parquet\.hadoop\.\w*Writer"
        rf"|{_X}datasources\.jdbc\.JdbcUtils\$?\.(?:\w*\$)?(?:save|create\w*Table|truncate|drop)"
        rf"|{_X}datasources\.DataSource\.createSink|{_S}sql\.streaming\.DataStreamWriter\.createV1Sink"
        rf"|{_X}(?:streaming|python\.streaming)\.(?:\w+\.)*(?:Python\w*)?Stream\w*DataWriter",
    ),
    (
        "source",
        True,
        rf"{_X}datasources\.(?:FileScanRDD|InMemoryFileIndex|PartitioningAwareFileIndex)"
        rf"|{_X}datasources\.v2\.(?:DataSourceRDD|FilePartitionReader|FileDataSourceV2|\w*PartitionReader"
        rf"|DataSourceV2ScanExec|MicroBatchScanExec)"
        rf"|{_X}datasources\.jdbc\.JDBCRDD|{_S}rdd\.(?:NewHadoopRDD|HadoopRDD|BinaryFileRDD)"
        rf"|{_T}(?:\w+\.)*(?:FileStreamSource(?:Log)?(?!\$?SeenFiles)|RateStream\w*|TextSocket\w*|FileStreamOptions)\b"
        rf"|{_X}datasources\.DataSource\.(?:createSource|sourceSchema|checkAndGlob|resolveRelation)"
        rf"|{_X}datasources\.\w+\.(?:Vectorized\w*Reader|Specific\w*Reader|\w*ColumnarBatchReader)"
        rf"|org\.apache\.parquet\.hadoop\.\w*Reader|{_S}sql\.DataFrameReader|{_S}sql\.streaming\.DataStreamReader"
        rf"|{_X}python\.streaming\.\w*(?:MicroBatchStream|StreamingSource)|{_X}datasources\.v2\.python",
    ),
    (
        "checkpoint",
        False,
        rf"{_T}(?:\w+\.)*(?:\w*CheckpointFileManager|HDFSMetadataLog|\w*OffsetSeq\w*|\w*CommitLog"
        rf"|StreamMetadata|CompactibleFileStreamLog|MetadataVersionUtil|ResolveWriteToStream"
        rf"|CheckpointMetadata\w*|OperatorStateMetadata\w*|FileContextBasedCheckpoint\w*)\b"
        rf"|(?:.*\.)?\w*HDFSMetadata\w*|.*\.getStreamMetadata",
    ),
    (
        "shuffle",
        True,
        rf"{_S}storage\.(?:ShuffleBlockFetcherIterator|BlockStoreShuffle|DiskBlockObjectWriter)"
        rf"|{_S}shuffle\.(?:BlockStoreShuffleReader|FetchFailed|MetadataFetchFailed|IndexShuffle"
        rf"|celeborn|rss)|{_S}MapOutputTracker|{_S}network\.shuffle|org\.apache\.celeborn|org\.apache\.uniffle",
    ),
    ("shuffle", False, rf"{_S}shuffle\.|{_S}network\.netty"),
    (
        "machine",
        True,
        rf"{_S}api\.python\.(?:PythonWorkerFactory|PythonWorkerUtils|BasePythonRunner.*applyOrElse)"
        rf"|{_S}memory\.|{_S}util\.collection\.|{_X}UnsafeExternal|{_S}io\.ReadAhead"
        rf"|{_S}storage\.(?:DiskStore|MemoryStore|BlockManager\b|memory)|{_S}broadcast\.",
    ),
    (
        "foreach",
        False,
        rf"{_T}(?:\w+\.)*(?:ForeachBatchSink|PythonForeachBatch\w*|ForeachDataWriter|ForeachWrite\w*"
        r"|PythonForeachWriter)\b|.*StreamingForeachBatchHelper",
    ),
    (
        "user_code",
        True,
        rf"{_S}sql\.catalyst\.expressions\.|{_S}sql\.catalyst\.(?:json|csv|xml|util)\."
        rf"|{_S}api\.python\.|{_X}python\.|{_S}sql\.(?:avro|protobuf)\.|{_S}ml\.|{_S}mllib\.",
    ),
    (
        "driver",
        False,
        rf"{_S}SparkContext\.assertNotStopped|{_S}deploy\.|{_S}rpc\.|{_S}scheduler\.cluster\.",
    ),
    ("sink", False, rf"{_X}datasources\.v2\.\w*(?:Writ|writ)|{_X}datasources\.SaveIntoDataSource"),
    ("user_code", False, rf"{_S}sql\.(?:catalyst|classic)\.(?:analysis|parser|plans)\b"),
)
_FRAME_RES: Final = [(place, holds, re.compile(text)) for place, holds, text in FRAMES]
_KNOWN: Final = re.compile(
    r"(?:java|javax|jdk|sun|scala|org\.apache|com\.sun|kotlin|io\.netty|io\.grpc|io\.vertx"
    r"|com\.google|com\.amazonaws|software\.amazon|com\.fasterxml|com\.esotericsoftware|com\.twitter"
    r"|com\.databricks|com\.microsoft|com\.azure|reactor|rx|akka|py4j|org\.codehaus|org\.json4s"
    r"|org\.slf4j|org\.sparkproject|org\.xerial|net\.jpountz|com\.github\.luben|org\.rocksdb"
    r"|oracle|com\.ibm|org\.eclipse|shaded|shadeddatabricks|okio|org\.jboss|org\.spark_project"
    r"|grpc_shaded|kafkashaded|shadeio|org\.joda|org\.xbill|com\.sksamuel|\$line\w*|line\w{32,}"
    r"|lib|cats|fs2|zio|com\.typesafe|com\.ning|org\.asynchttpclient|com\.codahale)\b"
)
_LIBRARY: Final = re.compile(
    r"(?:site-packages|dist-packages)/([\w.]+)|/(?:lib|bin|usr/lib\w*)/python[\d.]*/([\w]+)"
)
_SPARK_PYTHON: Final = re.compile(r"pyspark|py4j|cloudpickle|/databricks/spark/")
_ROW_WRITER: Final = re.compile(r"pyspark/sql/streaming/readwriter|foreach_batch_worker")

#: Write and read paths of Spark, to tell a connector's direction by what called it.
_WRITE_PATH: Final = re.compile(
    rf"{_T}(?:\w+\.)*(?:ForeachBatchSink|PythonForeachBatch|Foreach)|.*\.addBatch|.*DataFrameWriter"
    rf"|{_X}datasources\.(?:SaveInto|v2\.\w*Writ|FileFormatWriter)|.*\.foreachPartition"
    rf"|{_X}datasources\.jdbc\.JdbcUtils\$?\.(?:\w*\$)?save|.*\.saveTo\w+|.*\.(?:saveAsTable|write)\b"
    rf"|.*DataStreamWriter|.*\$\$runBatch|.*StreamingForeachBatch"
)
_READ_PATH: Final = re.compile(
    rf"{_X}datasources\.v2\.(?:DataSourceRDD|MicroBatchScan|DataSourceV2Scan)|{_X}datasources\.FileScanRDD"
    rf"|.*\.(?:latestOffset|getOffset|constructNextBatch|getBatch|planInputPartitions|initialOffset)\b"
    rf"|.*constructNextBatch|{_X}datasources\.jdbc\.JDBCRDD|.*DataFrameReader|.*DataStreamReader"
    rf"|.*DataSource\.createSource|.*prepareForTriggerAvailableNow|.*RDD\w*\.compute|.*\$logicalPlan"
)


class Place(msgspec.Struct, frozen=True):
    """What a stack says of where its exception was thrown; ``where`` is empty where nothing does.

    ``handed`` is set where a batch or row had been handed to the user's function that writes it.
    """

    where: str
    handed: bool = False


def place_of(frames: list[str]) -> Place:
    """Where an exception was thrown, by its frames and those of what it caused, innermost first."""
    soft = ""
    strange = client = handed = False
    for number, frame in enumerate(frames):
        where, holds = _place(frame, frames, number)
        if where == "foreach":
            handed = True
        elif where == "stranger":
            strange = True
        elif where == "client":
            client = True
        elif where and not holds:
            soft = soft or where
        elif where:
            if handed:
                break
            if where == "machine" and (soft or strange):
                continue
            return Place(where)
    if soft and not (handed and soft == "sink"):
        return Place(soft)
    if handed:
        return Place("user_code", handed=True)
    if strange:
        return Place("user_code")
    return Place("client" if client else "")


def _place(frame: str, frames: list[str], number: int) -> tuple[str, bool]:
    if ":" in frame:
        return _python_place(frame)
    if not frame.startswith("org.apache.spark.") or _CONNECTOR_RE.match(frame):
        found = _CONNECTOR_RE.search(frame)
        if found and found.lastgroup:
            return _direction(int(found.lastgroup[1:]), frames, number), True
    for where, holds, pattern in _FRAME_RES:
        if pattern.match(frame):
            return where, holds
    if _CLIENT_RE.search(frame):
        return "client", False
    if _KNOWN.match(frame) or "." not in frame:
        return "", False
    return "stranger", False


def _direction(connector: int, frames: list[str], number: int) -> str:
    """Whether a connector's frame reads or writes: its names, then what called it."""
    for frame in frames[number:]:
        found = _CONNECTOR_RE.search(frame)
        if found is None or found.lastgroup != f"c{connector}":
            continue
        name = frame[found.end() :]
        writes, reads = _WRITES.search(name), _READS.search(name)
        if bool(writes) != bool(reads):
            return "sink" if writes else "source"
    for frame in frames[number:]:
        if _WRITE_PATH.match(frame):
            return "sink"
        if _READ_PATH.match(frame):
            return "source"
    return CONNECTORS[connector][1]


def _python_place(frame: str) -> tuple[str, bool]:
    path, _, function = frame.rpartition(":")
    if _ROW_WRITER.search(path):
        return "foreach", False
    if _SPARK_PYTHON.search(path):
        return "", False
    library = _LIBRARY.search(path)
    if library is None:
        return "stranger", False
    name = library[1] or library[2] or ""
    if _CONNECTOR_RE.match(f"{name}.") or _CLIENT_RE.match(f"{name}."):
        return "client", False
    return "", False
