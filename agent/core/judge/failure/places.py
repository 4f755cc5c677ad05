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
    (
        "Kafka",
        "source",
        """org.apache.kafka org.apache.spark.sql.kafka010 org.apache.spark.streaming.kafka""",
    ),
    ("Kafka", "sink", "cimpl confluent_kafka kafka.errors kafka.producer aiokafka"),
    (
        "schema registry",
        "source",
        """io.confluent za.co.absa.abris io.apicurio com.amazonaws.services.schemaregistry""",
    ),
    (
        "Event Hubs",
        "source",
        """com.microsoft.azure.eventhubs org.apache.spark.eventhubs org.apache.spark.sql.eventhubs
        com.azure.messaging.eventhubs azure.eventhub org.apache.qpid.proton com.azure.core.amqp
        com.microsoft.azure.servicebus""",
    ),
    (
        "Kinesis",
        "source",
        """org.apache.spark.sql.kinesis org.apache.spark.sql.connector.kinesis
        org.apache.spark.streaming.kinesis amazonaws.services.kinesis awssdk.services.kinesis
        com.amazonaws.services.dynamodbv2.streamsadapter""",
    ),
    (
        "Pub/Sub",
        "source",
        """com.google.cloud.pubsub com.google.cloud.pubsublite com.google.pubsub
        google.cloud.pubsub org.apache.spark.streaming.pubsub""",
    ),
    ("Pulsar", "source", "org.apache.pulsar org.apache.spark.sql.pulsar io.streamnative"),
    ("RabbitMQ", "source", "com.rabbitmq pika amqpstorm org.apache.spark.streaming.rabbitmq"),
    ("MQTT", "source", "org.eclipse.paho org.apache.bahir org.apache.spark.streaming.mqtt"),
    ("receivers of DStreams", "source", "org.apache.spark.streaming.receiver"),
    ("JMS", "source", "javax.jms org.apache.activemq com.ibm.mq com.solacesystems"),
    (
        "SQS",
        "source",
        """org.apache.spark.sql.streaming.sqs com.qubole.spark amazonaws.services.sqs
        awssdk.services.sqs com.databricks.sql.aqs""",
    ),
    (
        "Auto Loader",
        "source",
        """com.databricks.sql.fileNotification com.databricks.sql.cloudfiles
        com.databricks.sql.streaming.CloudFiles""",
    ),
    (
        "Cosmos DB",
        "sink",
        """com.microsoft.azure.cosmosdb com.microsoft.azure.documentdb com.azure.cosmos
        azure.cosmos""",
    ),
    ("Cassandra", "sink", "com.datastax org.apache.cassandra cassandra"),
    (
        "Elasticsearch",
        "sink",
        "org.elasticsearch org.opensearch elasticsearch opensearchpy elastic_transport co.elastic",
    ),
    ("MongoDB", "sink", "com.mongodb org.mongodb pymongo org.bson"),
    (
        "Redis",
        "sink",
        """redis.clients com.redislabs org.apache.spark.sql.redis io.lettuce redis redis.exceptions
        org.redisson""",
    ),
    (
        "HBase",
        "sink",
        """org.apache.hadoop.hbase org.apache.phoenix happybase com.google.cloud.bigtable
        org.apache.spark.sql.execution.datasources.hbase org.apache.spark.datasources.hbase""",
    ),
    (
        "DynamoDB",
        "sink",
        """amazonaws.services.dynamodbv2 awssdk.services.dynamodb
        com.audienceproject.spark.dynamodb""",
    ),
    ("Kudu", "sink", "org.apache.kudu"),
    ("Neo4j", "sink", "org.neo4j neo4j"),
    ("InfluxDB", "sink", "com.influxdb org.influxdb influxdb"),
    ("Solr", "sink", "org.apache.solr com.lucidworks"),
    ("Couchbase", "sink", "com.couchbase"),
    ("Aerospike", "sink", "com.aerospike aerospike"),
    (
        "ClickHouse",
        "sink",
        """com.clickhouse ru.yandex.clickhouse xenon.clickhouse clickhouse_driver
        clickhouse_connect com.github.housepower""",
    ),
    ("Druid and Pinot", "sink", "org.apache.druid org.apache.pinot"),
    ("StarRocks and Doris", "sink", "com.starrocks org.apache.doris"),
    ("SingleStore", "sink", "com.singlestore com.memsql"),
    ("Kusto", "sink", "com.microsoft.kusto com.microsoft.azure.kusto azure.kusto"),
    ("Snowflake", "sink", "net.snowflake snowflake"),
    (
        "BigQuery",
        "sink",
        """com.google.cloud.bigquery com.google.cloud.spark.bigquery
        com.google.cloud.hadoop.io.bigquery google.cloud.bigquery
        com.google.api.services.bigquery""",
    ),
    (
        "Redshift",
        "sink",
        """com.databricks.spark.redshift io.github.spark_redshift com.amazon.redshift
        spark_redshift_community""",
    ),
    ("Synapse", "sink", "com.databricks.spark.sqldw com.microsoft.spark.sqlanalytics"),
    (
        "SQL Server",
        "sink",
        """com.microsoft.sqlserver com.microsoft.azure.sqldb com.microsoft.jdbc pymssql pyodbc""",
    ),
    (
        "PostgreSQL",
        "sink",
        """org.postgresql psycopg2 psycopg asyncpg pg8000 com.impossibl.postgres""",
    ),
    ("MySQL", "sink", "com.mysql org.mariadb pymysql MySQLdb mysql.connector"),
    ("Oracle", "sink", "oracle.jdbc oracle.net oracledb cx_Oracle"),
    (
        "a database over JDBC",
        "sink",
        """java.sql javax.sql com.ibm.db2 com.zaxxer.hikari org.apache.commons.dbcp
        org.apache.commons.dbcp2 com.mchange com.vertica com.teradata com.sap.db
        com.facebook.presto io.trino org.h2 org.apache.derby org.hsqldb org.apache.hive.jdbc
        net.sourceforge.jtds com.zaxxer org.apache.spark.sql.jdbc sqlalchemy sqlite3 org.sqlite
        org.apache.ignite scalikejdbc slick org.hibernate""",
    ),
    (
        "Delta",
        "sink",
        """org.apache.spark.sql.delta io.delta com.databricks.sql.transaction.tahoe delta""",
    ),
    ("Iceberg", "sink", "org.apache.iceberg pyiceberg"),
    ("Hudi", "sink", "org.apache.hudi com.uber.hoodie"),
    ("Paimon", "sink", "org.apache.paimon"),
    (
        "Hive",
        "sink",
        """org.apache.hadoop.hive org.apache.spark.sql.hive com.hortonworks.hwc org.apache.thrift
        com.qubole.spark.hiveacid""",
    ),
    ("TiDB", "sink", "com.pingcap org.tikv org.apache.spark.sql.tispark"),
    ("NebulaGraph", "sink", "com.vesoft"),
    (
        "other graphs",
        "sink",
        "com.arangodb org.arangodb com.tigergraph org.janusgraph com.orientechnologies",
    ),
    (
        "vectors",
        "sink",
        """io.qdrant io.milvus com.zilliz io.weaviate io.pinecone qdrant_client pymilvus weaviate
        pinecone org.lance com.lancedb""",
    ),
    (
        "other databases",
        "sink",
        """com.exasol io.pivotal.greenplum com.kinetica com.firebolt com.databend com.oceanbase
        io.crate io.questdb org.apache.iotdb com.hazelcast org.apache.geode org.apache.accumulo
        org.locationtech.geomesa org.apache.carbondata com.marklogic com.yugabyte com.dremio
        com.gigaspaces com.splunk com.springml.spark.salesforce com.sforce com.datadoghq""",
    ),
    (
        "other queues",
        "source",
        """org.apache.rocketmq com.aliyun.openservices com.aliyun.datahub io.nats io.pravega
        org.zeromq org.apache.flume""",
    ),
    (
        "SFTP and FTP",
        "sink",
        """com.springml.spark.sftp com.jcraft.jsch paramiko ftplib org.apache.commons.net.ftp""",
    ),
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


_TABLE_FORMATS: Final = frozenset(("Delta", "Iceberg", "Hudi", "Paimon"))
#: Of each connector: its packages, which way the data goes where nothing tells, and whether it is a
#: table's. The last is any that calls itself one.
_DIRECTIONS: Final = (
    *((_packages(words), way, name in _TABLE_FORMATS) for name, way, words in CONNECTORS),
    (r"\w*connectors?", "sink", False),
    # What is no package of Spark's own nor an engine's below it lies there to reach its insides.
    (
        (
            r"org\.apache\.spark\.sql\.(?!(?:api|artifact|avro|catalog|catalyst|classic|columnar|comet"
            r"|connect|connector|diagnostic|errors|exceptions|execution|expressions|functions|hudi"
            r"|internal|jdbc|metricview|ml|pipelines|protobuf|python|rapids|scripting|sources"
            r"|streaming|test|types|util|vectorized)\b)[a-z]\w*"
        ),
        "sink",
        False,
    ),
)
_CONNECTOR_RE: Final = re.compile(
    "(?:^|(?<=[.]))(?:"
    + "|".join(
        f"(?P<c{number}>(?:{packages})(?=[.$]))"
        for number, (packages, _, _) in enumerate(_DIRECTIONS)
    )
    + ")"
)
_REGISTRY: Final = f"c{[name for name, _, _ in CONNECTORS].index('schema registry')}"
_STORAGE_RE: Final = re.compile(rf"(?:{_packages(STORAGES)})(?=[.$])")
_CLIENT_RE: Final = re.compile(rf"(?:^|(?<=[.]))(?:{_packages(_CLIENTS)})(?=[.$])")

#: What the names of a connector's own classes and methods say of which way the data went. What
#: Spark makes both ways with (``…SourceProvider``, ``DefaultSource``) says neither.
_WRITES: Final = re.compile(
    r"Writ(?:er|e[A-Z.$]|ing)|\.write|Sink|Producer|Sender|Bulk|Upsert|[iI]nsert|[sS]aveTo|savePartition"
    r"|\.save|CommitTransaction|Publisher|Ingest|Upload|Merge|addBatch|Append"
    r"|[eE]xecuteBatch|bulkCopy|Marker|RecordAccumulator|TransactionManager|\.flush|createTable"
    r"|OutputFormat|Mutator"
)
_READS: Final = re.compile(
    r"Reader|(?<!Default)(?<!Data)Source(?!Provider)|Consumer|Receiver|Micro[bB]atchStream|Scan"
    r"|ChangeFeed|InputPartition|getOffset|latestOffset|planInput|RDD(?:Base|Iterator)?[.$]"
    r"|OffsetReader|Fetch(?:er|Collector)|Subscri|ConsumerStrategy|getRecords|ShardIterator"
    r"|TableValuedFunction|InputFormat|createSource|sourceSchema"
)
#: What says so of a table format, whose writers read the table's log and files themselves.
_READS_TABLE: Final = re.compile(
    r"(?<!Default)(?<!Data)Source(?!Provider)|Micro[bB]atch|InputPartition|latestOffset|planInput"
    r"|sourceSchema|FileReader|Scan(?:Exec|Builder)?\b"
)
#: A connector's own side towards Spark; the rest of it is the client of its service, which reads
#: to write and the other way round, and so does what lies in its jar under another name.
_TOWARDS_SPARK: Final = re.compile(r"(?!.*(?:repackaged|shaded|relocated)\.)[\w.$]*[sS]park")

# -- Spark itself -----------------------------------------------------------------------------

#: Spark's own packages, as the patterns below shorten them.
_SHORT: Final = (
    ("S/", r"org\.apache\.spark\."),
    ("X/", r"org\.apache\.spark\.sql\.execution\."),
    ("T/", r"org\.apache\.spark\.sql\.execution\.streaming\.(?:\w+\.)*"),
)

#: (place, whether it holds at once, a pattern each line). One that does not hold at once stands
#: around most of the work; a frame further out that does hold is believed instead.
FRAMES: Final[tuple[tuple[str, bool, str], ...]] = (
    # An iterator of the state's stage is on the stack of all that is read below it.
    (
        "",
        False,
        r"""
        T/state\.(?:StateStoreRDD|StateStoreAware|package)
        T/StateStoreRDD
        """,
    ),
    (
        "state",
        True,
        r"""
        T/state\.
        T/\w*StateManager
        T/StreamingSymmetricHashJoin\w*State
        \w+(?:\.\w+)*\.execution\.streaming\.state\.
        (?:.*\.)?\w*RocksDb?StateStore
        """,
    ),
    ("state", False, r"org\.rocksdb\."),
    (
        "sink",
        True,
        r"""
        T/(?:FileStreamSink(?:Log)?|ManifestFileCommitProtocol|MetadataLogFileIndex)\b
        T/(?:Python)?Stream\w*DataWriter
        X/python\.streaming\.\w*Writer
        X/datasources\.(?:FileFormatWriter|FileFormatDataWriter|\w*OutputWriter|InsertInto\w+)
        X/datasources\.(?:SingleDirectoryDataWriter|DynamicPartition\w*|BasicWrite\w+)
        X/datasources\.\w+\.\w*(?:OutputWriter|WriteSupport)
        X/datasources\.jdbc\.JdbcUtils\$?\.(?:\w*\$)?(?:save|create\w*Table|truncate|drop)
        X/datasources\.DataSource\.createSink
        S/sql\.streaming\.DataStreamWriter\.createV1Sink
        S/internal\.io\.\w*(?:Commit\w*|HadoopWriter|WriteConfigUtil)
        org\.apache\.hadoop\.mapred\w*\.lib\.output
        org\.apache\.parquet\.hadoop\.\w*Writer
        """,
    ),
    (
        "source",
        True,
        r"""
        T/(?:FileStreamSource|RateStream\w*|TextSocket\w*|FileStreamOptions)\b
        X/datasources\.(?:FileScanRDD|InMemoryFileIndex|PartitioningAwareFileIndex)
        X/datasources\.v2\.(?:DataSourceRDD|FilePartitionReader|FileDataSourceV2)
        X/datasources\.v2\.(?:\w*PartitionReader|DataSourceV2ScanExec|MicroBatchScanExec|python)
        X/datasources\.jdbc\.JDBCRDD
        X/datasources\.DataSource\.(?:createSource|sourceSchema|checkAndGlob|resolveRelation)
        X/datasources\.\w+\.\w*Reader\w*
        X/python\.(?:streaming\.)?\w*(?:MicroBatchStream|StreamingSource)
        S/rdd\.(?:NewHadoopRDD|HadoopRDD|BinaryFileRDD)
        S/sql\.DataFrameReader
        S/sql\.streaming\.DataStreamReader
        org\.apache\.parquet\.hadoop\.\w*Reader
        """,
    ),
    (
        "checkpoint",
        False,
        r"""
        T/(?:\w*CheckpointFileManager|HDFSMetadataLog|\w*OffsetSeq\w*|\w*CommitLog)\b
        T/(?:StreamMetadata|CompactibleFileStreamLog|MetadataVersionUtil|FileStreamSourceLog)\b
        T/(?:ResolveWriteToStream|CheckpointMetadata\w*|OperatorStateMetadata\w*)\b
        T/FileContextBasedCheckpoint\w*
        S/streaming\.(?:Checkpoint\w*|dstream\.DStreamCheckpointData)
        S/streaming\.StreamingContext\$?\.(?:checkpoint|getOrCreate)
        (?:.*\.)?\w*HDFSMetadata\w*
        """,
    ),
    (
        "shuffle",
        True,
        r"""
        S/storage\.(?:ShuffleBlockFetcherIterator|BlockStoreShuffle|DiskBlockObjectWriter)
        S/shuffle\.(?:BlockStoreShuffleReader|FetchFailed|MetadataFetchFailed|IndexShuffle)
        S/shuffle\.(?:celeborn|rss)
        S/MapOutputTracker
        S/network\.shuffle
        org\.apache\.celeborn
        org\.apache\.uniffle
        """,
    ),
    (
        "shuffle",
        False,
        r"""
        S/shuffle\.
        S/network\.netty
        """,
    ),
    (
        "machine",
        True,
        r"""
        S/api\.python\.(?:PythonWorkerFactory|PythonWorkerUtils|BasePythonRunner.*applyOrElse)
        S/memory\.
        S/util\.collection\.
        S/io\.ReadAhead
        S/storage\.(?:DiskStore|MemoryStore|BlockManager\b|memory)
        S/broadcast\.
        X/UnsafeExternal
        """,
    ),
    (
        "machine",
        False,
        r"""
        S/rpc\.
        S/network\.(?:client|server)
        """,
    ),
    (
        "foreach",
        False,
        r"""
        T/(?:ForeachBatchSink|PythonForeachBatch\w*|ForeachDataWriter|ForeachWrite\w*)\b
        T/PythonForeachWriter
        .*StreamingForeachBatchHelper
        """,
    ),
    (
        "user_code",
        True,
        r"""
        S/sql\.catalyst\.(?:expressions|encoders)\.
        S/sql\.catalyst\.(?:json|csv|xml|util)\.
        S/api\.python\.
        S/sql\.(?:avro|protobuf)\.
        S/(?:ml|mllib)\.
        X/python\.
        """,
    ),
    (
        "driver",
        False,
        r"""
        S/SparkContext\.assertNotStopped
        S/deploy\.
        S/scheduler\.cluster\.
        """,
    ),
    (
        "sink",
        False,
        r"""
        X/datasources\.v2\.\w*[wW]rit
        X/datasources\.SaveIntoDataSource
        """,
    ),
    ("user_code", False, r"S/sql\.(?:catalyst|classic)\.(?:analysis|parser|plans)\b"),
)


def _frames(lines: str) -> re.Pattern[str]:
    patterns = []
    for line in lines.strip().splitlines():
        pattern = line.strip()
        for short, package in _SHORT:
            if pattern.startswith(short):
                pattern = package + pattern[len(short) :]
        patterns.append(pattern)
    return re.compile("|".join(patterns))


_FRAME_RES: Final = [(place, holds, _frames(lines)) for place, holds, lines in FRAMES]
#: Files that a connector keeps of its own in the checkpoint.
_OWN_CHECKPOINT: Final = re.compile(
    r"\.HDFSMetadataCommitter|InitialOffsetStore|MetadataCommitter\b|ChangeFeedToken|spark\.util\.HdfsUtils\b"
    r"|Progress(?:Writer|Tracker)\b"
)
#: A function of the user's that Hive's registry calls, and the exception that Hive puts around
#: whatever failed.
_HIVE_FUNCTION: Final = re.compile(
    r"org\.apache\.(?:hadoop\.hive\.ql\.(?:exec\.FunctionRegistry|udf\.|metadata\.HiveException)"
    r"|spark\.sql\.hive\.Hive\w*(?:UDF|UDAF|UDTF))"
)
_KNOWN: Final = re.compile(
    r"(?:java|javax|jdk|sun|scala|org\.apache|com\.sun|kotlin|io\.netty|io\.grpc|io\.vertx"
    r"|com\.google|com\.amazonaws|software\.amazon|com\.fasterxml|com\.esotericsoftware|com\.twitter"
    r"|com\.databricks|com\.microsoft|com\.azure|reactor|rx|akka|py4j|org\.codehaus|org\.json4s"
    r"|org\.slf4j|org\.sparkproject|org\.xerial|net\.jpountz|com\.github\.luben|org\.rocksdb"
    r"|oracle|com\.ibm|org\.eclipse|shaded|shadeddatabricks|okio|org\.jboss|org\.spark_project"
    r"|grpc_shaded|kafkashaded|shadeio|org\.joda|org\.xbill|com\.sksamuel|\$line\w*|line\w{32,}"
    r"|lib|cats|fs2|zio|com\.typesafe|com\.ning|org\.asynchttpclient|com\.codahale)\b"
)
#: What waits for whoever called it.
_WAITS: Final = _frames(r"S/util\.")
#: What did not answer, by who asked it, where it is no service: (kind, place, who asked).
_OWN_ENDS: Final = (
    ("setting", "driver", _frames(r"X/exchange\.BroadcastExchange")),
    ("killed", "driver", _frames(r"py4j\.(?:Callback|ClientServer|PythonClient)")),  # its Python
    (  # a worker of Python: it goes without a word where it wants memory
        "memory",
        "user_code",
        _frames(
            r"""
            S/api\.python\.(?!PythonWorkerFactory)
            X/python\.(?!(?:streaming\.)?PythonStreamingSource)
            .*StreamingForeachBatchHelper
            """
        ),
    ),
)
#: How a socket says that who was at its other end is no more.
_ENDED: Final = re.compile(
    r"EOFException|(?:ClosedChannel|AsynchronousClose)Exception|Connection reset|Broken pipe"
    r"|[Ss]ocket (?:is )?closed"
)
_LANGUAGE: Final = re.compile(r"(?:java|javax|jdk|sun|scala|kotlin)\.")
_LOCAL_FILE: Final = re.compile(
    r"java\.io\.(?:File|RandomAccess)|java\.nio\.(?:file|channels\.File)|sun\.nio\.(?:fs|ch\.File)"
)
_LIBRARY: Final = re.compile(
    r"(?:site-packages|dist-packages)/([\w.]+)|/(?:lib|bin|usr/lib\w*)/python[\d.]*/([\w]+)"
)
_SPARK_PYTHON: Final = re.compile(r"pyspark|py4j|cloudpickle|/databricks/spark/")
_ROW_WRITER: Final = re.compile(r"pyspark/sql/streaming/readwriter|foreach_batch_worker")

#: Write and read paths of Spark, to tell a connector's direction by what called it.
_WRITE_PATH: Final = _frames(
    r"""
    T/(?:ForeachBatchSink|PythonForeachBatch|Foreach)
    X/datasources\.(?:SaveInto|v2\.\w*Writ|FileFormatWriter)
    X/datasources\.jdbc\.JdbcUtils\$?\.(?:\w*\$)?save
    .*(?:DataFrameWriter|DataStreamWriter|StreamingForeachBatch|\$\$runBatch)
    .*\.(?:addBatch|foreachPartition|saveTo\w+|saveAsTable|write)\b
    """
)
_READ_PATH: Final = _frames(
    r"""
    X/datasources\.v2\.(?:DataSourceRDD|MicroBatchScan|DataSourceV2Scan)
    X/datasources\.(?:FileScanRDD|jdbc\.JDBCRDD)
    .*\.(?:latestOffset|getOffset|getBatch|planInputPartitions|initialOffset)\b
    .*(?:[cC]onstructNextBatch|DataFrameReader|DataStreamReader|DataSource\.createSource)
    .*(?:prepareForTriggerAvailableNow|\$logicalPlan)
    (?!org\.apache\.spark\.(?:rdd|sql\.execution)\.).*RDD\w*\.compute\b
    """
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
            if soft == "checkpoint" and where == "source":
                break  # what a source notes in the checkpoint
            return Place(where)
    if soft and not (handed and soft == "sink"):
        return Place(soft)
    if handed:
        return Place("user_code", handed=True)
    if strange:
        return Place("user_code")
    return Place("client" if client else "")


def missed_in_storage(frames: list[str]) -> bool:
    """Whether a file system looked for something: what it does not know is a file, not a name."""
    return bool(frames) and frames[0].startswith("org.apache.hadoop.fs.")


def asked_registry(frames: list[str]) -> bool:
    """Whether the innermost connector is a schema registry's: it holds no rows that may be lost."""
    for frame in frames:
        found = _CONNECTOR_RE.search(frame)
        if found is not None:
            return found.lastgroup == _REGISTRY
    return False


def opened_by_client(frames: list[str]) -> bool:
    """Whether a file of the machine was opened by a connector itself: one that an option names."""
    for number, frame in enumerate(frames):
        if not _LOCAL_FILE.match(frame):
            if number == 0:
                return False
            found = _CONNECTOR_RE.search(frame) or _CLIENT_RE.search(frame)
            return found is not None and _OWN_CHECKPOINT.search(frame) is None
    return False


def own_end(frames: list[str], said: str) -> tuple[str, str] | None:
    """The kind and place of what did not answer, where it is a part of Spark or of the job.

    ``said`` is the exception's class and message: a worker that is only late has not died.
    """
    for frame in frames:
        if frame.endswith(".") or _LANGUAGE.match(frame) or _WAITS.match(frame):
            continue
        told = next(((kind, at) for kind, at, asked in _OWN_ENDS if asked.match(frame)), None)
        if told is not None and told[0] == "memory" and not _ENDED.search(said):
            return "unreachable", "machine"
        return told
    return None


def thrown_by_user(frames: list[str]) -> bool:
    """Whether a stack of Java begins in code that is nobody's that is known."""
    for number, frame in enumerate(frames):
        if not _LANGUAGE.match(frame):
            return _place(frame, frames, number)[0] == "stranger"
    return False


def _place(frame: str, frames: list[str], number: int) -> tuple[str, bool]:
    if ":" in frame:
        return _python_place(frame)
    if _OWN_CHECKPOINT.search(frame):
        return "checkpoint", True
    if _HIVE_FUNCTION.match(frame):
        return ("", False) if frame.endswith(".") else ("user_code", True)
    if not frame.startswith("org.apache.spark.") or _CONNECTOR_RE.match(frame):
        found = _CONNECTOR_RE.search(frame)
        if found and found.lastgroup:
            return _direction(int(found.lastgroup[1:]), frames, number), True
    for where, holds, pattern in _FRAME_RES:
        if pattern.match(frame):
            return where, holds
    if _CLIENT_RE.search(frame):
        return "client", False
    if _KNOWN.match(frame) or _STORAGE_RE.match(frame) or "." not in frame:
        return "", False
    return "stranger", False


def _direction(connector: int, frames: list[str], number: int) -> str:
    """Whether a connector's frame reads or writes: its names, then what called it.

    Its side towards Spark is asked before its client.
    """
    own: list[tuple[str, str]] = []
    for frame in frames[number:]:
        found = _CONNECTOR_RE.search(frame)
        if found is not None and found.lastgroup == f"c{connector}":
            own.append((frame, frame[found.end() :]))
    own.sort(key=lambda one: _TOWARDS_SPARK.match(one[0]) is None)
    _, usual, table = _DIRECTIONS[connector]
    way = _way([name for frame, name in own if not frame.endswith(".")], table=table)
    if way:
        return way
    for frame in frames[number:]:
        if _WRITE_PATH.match(frame):
            return "sink"
        if _READ_PATH.match(frame):
            return "source"
    # What a client calls its exceptions is said of its wire more than of the query's way.
    return _way([name for frame, name in own if frame.endswith(".")], table=table) or usual


def _way(names: list[str], *, table: bool) -> str:
    for name in names:
        writes, reads = _WRITES.search(name), (_READS_TABLE if table else _READS).search(name)
        if bool(writes) != bool(reads):
            return "sink" if writes else "source"
    return ""


def _python_place(frame: str) -> tuple[str, bool]:
    path = frame.rpartition(":")[0]
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
