"""Failure causes: ordered rules over exception chain, error class and context; the first wins.

Each rule has a name, a cause, and what it looks for. The order carries meaning: what says most of
the cause comes first (no memory, a full disk, lost data), what merely wraps it last (an exception
in user code). The evidence is the line that matched, with secrets struck out.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from agent.core.judgement import FailureView
from agent.core.names import first_line

Cause = Literal[
    "user_code",
    "external_sink",
    "memory",
    "machine",
    "state_store",
    "checkpoint_storage",
    "source_data_loss",
    "configuration",
    "unknown",
]
CAUSES: Final[tuple[Cause, ...]] = (
    "user_code",
    "external_sink",
    "memory",
    "machine",
    "state_store",
    "checkpoint_storage",
    "source_data_loss",
    "configuration",
    "unknown",
)
LONGEST_EVIDENCE: Final = 300


class Context(msgspec.Struct, frozen=True):
    """What else is known of the run that ended."""

    checkpoint_location: str = ""
    killed_after_seconds: float | None = None  # it was ended while a batch ran past its deadline
    committed: bool = False  # the query had committed batches before: its source was there


class Rule(msgspec.Struct, frozen=True):
    """A rule: any of its error classes (a prefix is enough), or its pattern in the text.

    ``unless`` keeps it from matching where that stands in the text too; ``within`` wants one more
    pattern to stand there; ``once_committed`` wants a query that had committed batches.
    """

    name: str
    cause: Cause
    pattern: str = ""
    error_classes: tuple[str, ...] = ()
    within: str = ""
    unless: str = ""
    once_committed: bool = False


#: Where a batch is handed to code that writes elsewhere.
_SINK: Final = (
    r"foreachBatch|FOREACH_BATCH_USER_FUNCTION_ERROR|FOREACH_USER_FUNCTION_ERROR|ForeachBatchSink"
    r"|ForeachWriter|ForeachDataWriter|foreach_batch|python/pyspark/sql/streaming/readwriter"
    r"|JdbcUtils|jdbc:|KafkaWriteTask|KafkaDataWriter|KafkaRowWriter|KafkaProducer"
    r"|DataSourceV2.*[wW]rit|WriteToDataSourceV2|FileStreamSink|call_func"
)
_CHECKPOINT: Final = (
    r"HDFSMetadataLog|CheckpointFileManager|OffsetSeqLog|CommitLog|StreamMetadata"
    r"|AsyncOffsetSeqLog|AsyncCommitLog|MicroBatchExecution\.markMicroBatch|StreamExecution\.<init>"
    r"|CompactibleFileStreamLog|CheckpointMetadataLog|getStreamMetadata|ResolveWriteToStream"
)
_STATE: Final = r"StateStore|RocksDB|state\.HDFSBackedState|/state/\d+"
_NETWORK: Final = (
    r"ConnectException|ConnectionRefusedError|Connection refused|ConnectTimeoutException"
    r"|SocketTimeoutException|SocketException|TimeoutException|TimeoutError|timed out"
    r"|ConnectionResetError|Connection reset|BrokenPipeError|Broken pipe|UnknownHostException"
    r"|NoRouteToHost|gaierror|ConnectionError|ConnectionAbortedError|ClosedChannelException"
    r"|SSLHandshakeException|ServiceUnavailable|503 Service|429 Too Many"
)

RULES: Final[tuple[Rule, ...]] = (
    # -- what names its cause outright -----------------------------------------------------
    Rule(
        "java_memory",
        "memory",
        r"java\.lang\.OutOfMemoryError|GC overhead limit exceeded|SparkOutOfMemoryError"
        r"|UNABLE_TO_ACQUIRE_MEMORY|Requested array size exceeds VM limit|Java heap space",
        ("UNABLE_TO_ACQUIRE_MEMORY",),
    ),
    Rule(
        "container_memory",
        "memory",
        r"OOMKilled|Container killed by YARN for exceeding|exceeding memory limits"
        r"|[Ee]xit (?:code|status):? (?:is )?52\b|exited with code 52\b|std::bad_alloc"
        r"|Cannot allocate memory",
    ),
    Rule(
        "python_memory",
        "memory",
        r"^(?:[\w.]*:\s*)?(?:numpy\S*\.)?(?:_ArrayMemoryError|MemoryError|ArrowMemoryError)\b"
        r"|pyarrow\.lib\.ArrowMemoryError",
    ),
    Rule(
        "python_worker_gone",
        "memory",
        r"Python worker exited unexpectedly|PYTHON_WORKER_EXITED"
        r"|Python worker (?:process )?(?:was )?(?:killed|terminated)"
        r"|Worker died unexpectedly",
    ),
    Rule(
        "concurrent_checkpoint",
        "configuration",
        r"(?:Multiple streaming jobs detected|CONCURRENT_STREAM_LOG_UPDATE"
        r"|[Cc]oncurrent update to the (?:commit )?log|There is already \[\S+\] as a provider"
        r"|another run .*already active|CONCURRENT_QUERY|Cannot start query with id"
        r"|already active|ConcurrentModificationException: Multiple)",
        ("CONCURRENT_STREAM_LOG_UPDATE", "CONCURRENT_QUERY"),
    ),
    Rule(
        "transaction_timeout",
        "configuration",
        r"(?:InvalidTxnTimeoutException|INVALID_TRANSACTION_TIMEOUT"
        r"|[Tt]ransaction timeout is larger than the maximum)",
    ),
    Rule(
        "kafka_data_loss",
        "source_data_loss",
        r"(?:OffsetOutOfRange|KAFKA_DATA_LOSS|failOnDataLoss|Some data may have been lost"
        r"|may have been aged out|Cannot fetch records in|partitions? .*(?:have|has) been deleted"
        r"|are gone\.|offset was changed from|INCONSISTENT_OFFSET|NoOffsetForPartition"
        r"|UNRECOVERABLE_STREAMING_SOURCE|could not be found in the table history"
        r"|was vacuumed|ExpiredIteratorException|DELTA_MISSING_CHANGE_FILES"
        r"|versionNotFound|DELTA_FILE_NOT_FOUND|streaming.*version.*no longer)",
        ("KAFKA_DATA_LOSS",),
    ),
    # -- storage of state and checkpoint ------------------------------------------------------
    Rule(
        "disk_full_checkpoint",
        "checkpoint_storage",
        r"(?:No space left on device|Disk quota exceeded|DSQuotaExceededException"
        r"|NSQuotaExceededException|ENOSPC)",
        within=f"{_CHECKPOINT}|{_STATE}",
    ),
    Rule(
        "disk_full",
        "machine",
        r"(?:No space left on device|Disk quota exceeded|ENOSPC)",
    ),
    Rule(
        "state_schema",
        "state_store",
        r"(?:STATE_STORE_\w*SCHEMA_NOT_COMPATIBLE|StateSchemaNotCompatible"
        r"|STATE_STORE_UNSUPPORTED_OPERATION|STATE_STORE_INVALID|STATE_STORE_HANDLE"
        r"|Provided schema doesn't match to the schema for existing state"
        r"|STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
        r"|UnsafeRow (?:for key|for value|format validation))",
        (
            "STATE_STORE_",
            "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
            "STDS_",
            "STATE_SCHEMA_",
        ),
    ),
    Rule(
        "state_load",
        "state_store",
        r"(?:CANNOT_LOAD_STATE_STORE|Error reading delta file|Error reading snapshot"
        r"|Error reading streaming state file|does not exist.*(?:state store|\.delta|\.snapshot)"
        r"|ROCKSDB_\w+|RocksDBException|StateStoreId|FAILED_TO_GET_CHANGELOG"
        r"|CANNOT_WRITE_STATE_STORE|state store .*(?:corrupt|not found|missing)"
        r"|checksum .*state|/state/\d+/\d+/)",
        ("CANNOT_LOAD_STATE_STORE", "CANNOT_WRITE_STATE_STORE", "FAILED_TO_LOAD_STATE"),
    ),
    Rule(
        "checkpoint_log",
        "checkpoint_storage",
        r"(?:Incomplete log file|Malformed log file|MALFORMED_LOG_FILE|Log file was malformed"
        r"|BATCH_METADATA_NOT_FOUND|MISSING_METADATA|Failed to read log file"
        r"|Unable to find batch|batch \d+ doesn't exist|Cannot create streaming checkpoint"
        r"|FAILED_TO_CREATE_CHECKPOINT|CANNOT_CREATE_CHECKPOINT|checkpoint (?:location|path|dir\w*)"
        r" (?:doesn't|does not) exist|Error (?:writing|reading) stream metadata"
        r"|CANNOT_(?:READ|WRITE)_CHECKPOINT|ChecksumException|RenameFailed"
        r"|FAILED_RENAME_TEMP_FILE)",
        (
            "MALFORMED_LOG_FILE",
            "BATCH_METADATA_NOT_FOUND",
            "CANNOT_CREATE_CHECKPOINT",
            "FAILED_RENAME_TEMP_FILE",
            "MISSING_METADATA_FILE",
            "CHECKPOINT_",
        ),
    ),
    Rule(
        "checkpoint_io",
        "checkpoint_storage",
        r"(?:java\.io\.|org\.apache\.hadoop\.|java\.nio\.|ParentNotDirectory|AccessControl"
        r"|AccessDenied|FileAlreadyExists|FileNotFound|IOException|AmazonS3|SdkClientException"
        r"|Permission denied|not a directory)",
        within=_CHECKPOINT,
        unless=_SINK,
    ),
    # -- the source -----------------------------------------------------------------------------
    Rule(
        "source_file_gone",
        "source_data_loss",
        r"(?:FAILED_READ_FILE\.FILE_NOT_EXIST|It is possible the underlying files have been"
        r"|File (?:does not exist|\S+ does not exist)|FileNotFoundException)",
        ("FAILED_READ_FILE.FILE_NOT_EXIST",),
        unless=_STATE,
    ),
    Rule(
        "topic_gone",  # it had been read
        "source_data_loss",
        r"(?:UnknownTopicOrPartition|UNKNOWN_TOPIC|topic.* does not exist)",
        unless=_SINK,
        once_committed=True,
    ),
    # -- what was asked for cannot be ------------------------------------------------------------
    Rule(
        "missing_source",
        "configuration",
        r"(?:PATH_NOT_FOUND|Path does not exist|UnknownTopicOrPartition|topic.* does not exist"
        r"|UNKNOWN_TOPIC|InvalidTopicException|Failed to find data source"
        r"|DATA_SOURCE_NOT_FOUND|TABLE_OR_VIEW_NOT_FOUND|ClassNotFoundException"
        r"|NoSuchMethodError|NoClassDefFoundError|No suitable driver"
        r"|DataSource .*not found|TopicAuthorizationException|GroupAuthorizationException"
        r"|SaslAuthenticationException|Invalid url|No resolvable bootstrap urls)",
        (
            "PATH_NOT_FOUND",
            "DATA_SOURCE_NOT_FOUND",
            "TABLE_OR_VIEW_NOT_FOUND",
        ),
    ),
    Rule(
        "option",
        "configuration",
        r"(?:Invalid value '[^']*' for option|IllegalArgumentException: Option"
        r"|requirement failed: Option|INVALID_OPTION|[Oo]ption '[^']*' (?:must|is|has)"
        r"|STREAMING_OUTPUT_MODE|STREAMING_OUTPUT_MODE|Append output mode not supported"
        r"|output mode not supported|INVALID_SQL_CONF|CONFIG_|ConfigException"
        r"|SparkNoSuchElementException|checkpointLocation must be specified"
        r"|INVALID_PARAMETER|UNSUPPORTED_STREAMING|must be a positive integer"
        r"|There are \[\d+\] sources in the checkpoint|offset log .*sources|Invalid \S+ value)",
        (
            "STREAMING_OUTPUT_MODE",
            "INVALID_OPTION",
            "INVALID_SQL_CONF",
            "INVALID_CONF",
            "STDS_OPTION",
            "UNSUPPORTED_STREAMING",
            "WRITE_STREAM_NOT_ALLOWED",
            "INVALID_PARAMETER_VALUE",
        ),
    ),
    # -- machines -----------------------------------------------------------------------------
    Rule(
        "executor_lost",
        "machine",
        r"(?:ExecutorLostFailure|Executor heartbeat timed out|Lost executor|executor lost"
        r"|Remote RPC client disassociated|FetchFailed|MetadataFetchFailed|Lost worker"
        r"|worker lost|Slave lost|Container from a bad node|RpcTimeoutException"
        r"|Futures timed out after|spark\.rpc\.askTimeout|Master removed our application"
        r"|Job aborted .*because SparkContext was shut down|exited with code 13[47])",
        unless=r"FOREACH_BATCH_USER_FUNCTION_ERROR\b(?!.*Job aborted)",
    ),
    # -- the sink ----------------------------------------------------------------------------
    Rule(
        "sink_network",
        "external_sink",
        rf"(?:{_NETWORK})",
        within=_SINK,
    ),
    Rule(
        "sink_says_no",
        "external_sink",
        r"(?:SQLException|SQLSyntaxErrorException|SQLTransient|SQLNonTransient"
        r"|BatchUpdateException|TASK_WRITE_FAILED|_spark_metadata|KafkaException"
        r"|ProducerFencedException|RecordTooLargeException|NotLeaderOrFollower"
        r"|OperationalError|InterfaceError|psycopg|ElasticsearchException|ApiException|HTTPError"
        r"|MongoException|WriteConflict|ConcurrentAppendException|DELTA_CONCURRENT"
        r"|NoHostAvailable|DATA_SOURCE_WRITE)",
    ),
    Rule(
        "sink_files",
        "external_sink",
        r"(?:java\.io\.|org\.apache\.hadoop\.fs\.|java\.nio\.|AccessDenied|IOException"
        r"|ParentNotDirectory|Mkdirs failed)",
        ("TASK_WRITE_FAILED",),
        within=r"FileStreamSink|FileFormatWriter|FileOutputCommitter|ManifestFileCommitProtocol",
    ),
    # -- the network in between, which belongs to no sink ----------------------------------------
    Rule(
        "network",
        "machine",
        r"(?:java\.net\.|java\.util\.concurrent\.TimeoutException|Connection (?:reset|refused)"
        r"|kafka\.common\.errors\.(?:Timeout|Disconnect|Network|BrokerNotAvailable|Retriable)"
        r"|UnknownHostException|No route to host|ClosedChannelException|Broken pipe"
        r"|Failed to connect to|io\.netty\.)",
        unless=r"PYTHON_EXCEPTION|PythonException|PythonDataSourceError",
    ),
    # -- the user's own -----------------------------------------------------------------------
    Rule(
        "python_exception",
        "user_code",
        r"^\s*(?:pyspark\.errors\.\S*: )?(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Warning|Exit"
        r"|Interrupt)\b",
        ("PYTHON_EXCEPTION", "FOREACH_BATCH_USER_FUNCTION_ERROR", "FOREACH_USER_FUNCTION_ERROR"),
        within=r"Traceback \(most recent call last\)",
    ),
    Rule(
        "data_error",
        "user_code",
        r"(?:DIVIDE_BY_ZERO|CAST_INVALID_INPUT|CAST_OVERFLOW|ARITHMETIC_OVERFLOW"
        r"|MALFORMED_RECORD_IN_PARSING|MALFORMED_CSV_RECORD|MALFORMED_CHARACTER_CODING"
        r"|INVALID_ARRAY_INDEX"
        r"|FAILED_EXECUTE_UDF|AvroRuntimeException|AvroTypeException|AVRO_|DeserializationException"
        r"|SerializationException|InvalidProtocolBuffer|JsonParseException|SparkArithmeticException"
        r"|SparkDateTimeException|SparkNumberFormatException|NumberFormatException"
        r"|Task not serializable|PicklingError|MatchError|NullPointerException|ClassCastException"
        r"|EXPRESSION_DECODING_FAILED|RUNTIME_DECODE|USER_RAISED_EXCEPTION|UDF_)",
        (
            "DIVIDE_BY_ZERO",
            "CAST_",
            "ARITHMETIC_",
            "MALFORMED_RECORD",
            "MALFORMED_CSV",
            "MALFORMED_CHARACTER_CODING",
            "FAILED_EXECUTE_UDF",
            "USER_RAISED_EXCEPTION",
            "INVALID_ARRAY_INDEX",
            "AVRO_",
            "UDF_",
            "FAILED_PARSE",
            "INVALID_FORMAT",
        ),
    ),
    Rule(
        "analysis",
        "configuration",
        r"(?:AnalysisException|ParseException|UNRESOLVED_COLUMN|DATATYPE_MISMATCH)",
        ("UNRESOLVED_", "DATATYPE_MISMATCH", "UNSUPPORTED_", "INVALID_"),
    ),
    Rule(
        "illegal_argument",
        "configuration",
        r"(?:IllegalArgumentException|NoSuchElementException)",
    ),
)


class _Compiled(msgspec.Struct, frozen=True):
    rule: Rule
    pattern: re.Pattern[str] | None
    within: re.Pattern[str] | None
    unless: re.Pattern[str] | None


def _compile(text: str) -> re.Pattern[str] | None:
    return re.compile(text, re.MULTILINE) if text else None


_COMPILED: Final = [
    _Compiled(rule, _compile(rule.pattern), _compile(rule.within), _compile(rule.unless))
    for rule in RULES
]


def cause_of(
    exception: str | None, error_class: str | None, context: Context | None = None
) -> FailureView:
    """The cause of a run's end and the line that shows it; ``unknown`` where no rule holds."""
    context = context or Context()
    text = exception or ""
    name = error_class or ""
    for one in _COMPILED:
        if one.rule.once_committed and not context.committed:
            continue
        evidence = _evidence(one, text, name)
        if evidence is not None:
            return FailureView(one.rule.cause, _tidy(evidence, name))
    if context.killed_after_seconds is not None:
        said = f"ended from outside after a batch had run {context.killed_after_seconds:.0f} s"
        return FailureView("unknown", f"{said}: {first_line(text, 120)}" if text.strip() else said)
    said = first_line(text, LONGEST_EVIDENCE)
    return FailureView("unknown", _tidy(said, name) if said or name else "no exception was told")


def rule_of(exception: str | None, error_class: str | None) -> str | None:
    """The name of the rule that matches first, with nothing else known; None where none does."""
    for one in _COMPILED:
        if one.rule.once_committed:
            continue
        if _evidence(one, exception or "", error_class or "") is not None:
            return one.rule.name
    return None


def _evidence(one: _Compiled, text: str, error_class: str) -> str | None:
    both = f"{text}\n{error_class}"
    if one.within is not None and not one.within.search(both):
        return None
    if one.unless is not None and one.unless.search(both):
        return None
    if one.pattern is not None:
        found = list(one.pattern.finditer(text)) if one.rule.name == "python_exception" else []
        match = found[-1] if found else one.pattern.search(text)
        if match is not None:
            return _line(text, match.start())
    if any(error_class.startswith(prefix) for prefix in one.rule.error_classes):
        return first_line(text, LONGEST_EVIDENCE) or error_class
    return None


def _line(text: str, place: int) -> str:
    """The line around a place, from at most a little before it where the line is very long."""
    begin = max(text.rfind("\n", 0, place) + 1, place - LONGEST_EVIDENCE // 2)
    end = text.find("\n", place)
    return text[begin : len(text) if end < 0 else end]


def _tidy(evidence: str, error_class: str) -> str:
    line = first_line(evidence.strip(), LONGEST_EVIDENCE)
    if error_class and error_class not in line:
        line = f"{error_class}: {line}" if line else error_class
    return line[:LONGEST_EVIDENCE]
