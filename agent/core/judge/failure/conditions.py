"""Where each error condition of Spark, its Kafka connector and Delta belongs, and why.

Spark names its errors: a condition such as ``CANNOT_LOAD_STATE_STORE.UNCATEGORIZED``, published in
its jars with a SQLSTATE (``error/error-conditions.json``, before 4.0 ``error-classes.json``;
Delta's ``error/delta-error-classes.json``). The families below place every one of them by its name;
a name that no family knows, of a later version or of Databricks, goes by the class of its SQLSTATE
where its message tells nothing. ``tests/faults/test_conditions.py`` reads the jars of every version
that is installed and fails for a condition without a place. What is unknown, is unknown by
decision: the family says why.

In a pattern ``*`` stands for any letters. Of several that match the one with most letters holds;
one that names a subclass goes before one that names its condition.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import msgspec


class Family(msgspec.Struct, frozen=True):
    """Conditions that belong to one place for one reason.

    ``where`` and ``kind`` are empty where the name tells nothing and the rest of the text decides.
    """

    where: str
    kind: str
    why: str
    patterns: tuple[str, ...]


def _family(where: str, kind: str, why: str, patterns: str) -> Family:
    return Family(where, kind, why, tuple(patterns.split()))


FAMILIES: Final[tuple[Family, ...]] = (
    # -- what only wraps -----------------------------------------------------------------------
    _family(
        "",
        "",
        "says that something failed and carries the exception that tells what",
        """STREAM_FAILED STAGE_MATERIALIZATION_MULTIPLE_FAILURES DATA_SOURCE_EXTERNAL_ERROR
        FOREACH_BATCH_USER_FUNCTION_ERROR FOREACH_USER_FUNCTION_ERROR PIPELINE_RUN_FAILED
        FAILED_FUNCTION_CALL INCONSISTENT_BEHAVIOR_CROSS_VERSION HYBRID_ANALYZER_EXCEPTION
        PYTHON_EXCEPTION CONNECT CONNECT.* STREAMING_ASYNC_OPERATION_FAILED
        DELTA_POST_COMMIT_HOOK_FAILED CONNECT_CLIENT_UNEXPECTED_MISSING_SQL_STATE""",
    ),
    _family(
        "",
        "",
        "a template without a name of its own: its message is read instead",
        "_LEGACY_ERROR_* _LEGACY_ERROR_TEMP_DELTA_*",
    ),
    _family(
        "",
        "",
        "Spark's own fault, or a message passed through: the frames and the message are read",
        """INTERNAL_ERROR INTERNAL_ERROR_* UNEXPECTED_* PLAN_VALIDATION_*
        INVALID_SQL_FUNCTION_PLAN* MISSING_ATTRIBUTES AMBIGUOUS_RESOLVER_EXTENSION
        RULE_ID_NOT_FOUND CHANGELOG_CONTRACT_VIOLATION INVALID_WRITER_COMMIT_MESSAGE""",
    ),
    # -- what Databricks alone publishes ---------------------------------------------------------
    _family(
        "source",
        "",
        "Auto Loader's, Kinesis' and Pub/Sub's: the message tells what, the SQLSTATE is general",
        "CF_* CLOUD_FILE_* KINESIS_* PS_*",
    ),
    _family(
        "source",
        "gone",
        "a file of the change feed was vacuumed before it was read",
        "DELTA_CHANGE_DATA_FILE_NOT_FOUND",
    ),
    _family(
        "user_code",
        "memory",
        "a Python worker had no more memory",
        "UDF_PYSPARK_ERROR.OOM UDF_PYSPARK_USER_CODE_ERROR.MEMORY_LIMIT*",
    ),
    _family(
        "user_code",
        "denied",
        "who runs the query lacks a right that the catalog grants",
        "INSUFFICIENT_PERMISSIONS*",
    ),
    # -- state ------------------------------------------------------------------------------
    _family(
        "state",
        "corrupt",
        "what the state store reads back is not what it wrote",
        """CANNOT_LOAD_STATE_STORE.*KEY_SIZE CANNOT_LOAD_STATE_STORE.*VALUE_SIZE
        CANNOT_LOAD_STATE_STORE.INVALID_* CANNOT_LOAD_STATE_STORE.UNEXPECTED_*
        CANNOT_LOAD_STATE_STORE.SNAPSHOT_PARTITION* CANNOT_LOAD_STATE_STORE.KEY_ROW_FORMAT*
        CANNOT_LOAD_STATE_STORE.VALUE_ROW_FORMAT*
        CANNOT_LOAD_STATE_STORE.AUTO_SNAPSHOT_REPAIR_FAILED
        CANNOT_LOAD_STATE_STORE.CANNOT_READ_CHECKPOINT STATE_STORE_ROW_CHECKSUM*
        STATE_STORE_KEY_ROW_FORMAT* STATE_STORE_VALUE_ROW_FORMAT* STATE_STORE_UNEXPECTED_EMPTY*
        STATE_STORE_BASE_CHECKPOINT_ID_MISMATCH STATE_STORE_COMMIT_VALIDATION_FAILED
        STREAM_STREAM_JOIN_INCONSISTENT_STATE ILLEGAL_STATE_STORE_VALUE""",
    ),
    _family(
        "state",
        "gone",
        "a file or a version that the state store needs is not there",
        """CANNOT_LOAD_STATE_STORE.*NOT_EXISTS CANNOT_LOAD_STATE_STORE.*MISSING*
        CANNOT_LOAD_STATE_STORE.CANNOT_FIND* CANNOT_LOAD_STATE_STORE.*STREAMING_STATE_FILE
        CANNOT_LOAD_STATE_STORE.FAILED_TO_GET*
        STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY STDS_COMMITTED_BATCH_UNAVAILABLE
        STDS_NO_PARTITION_DISCOVERED_IN_STATE_STORE STDS_FAILED_TO_READ_STATE_SCHEMA
        STDS_FAILED_TO_READ_OPERATOR_METADATA""",
    ),
    _family(
        "state",
        "refused",
        "another task still holds the state store",
        "CANNOT_LOAD_STATE_STORE.UNRELEASED_THREAD_ERROR",
    ),
    _family("state", "memory", "the state does not fit", "CANNOT_LOAD_STATE_STORE.*OUT_OF_MEMORY"),
    _family(
        "state",
        "schema",
        "the query's state is of another shape than the one that the checkpoint holds",
        """STATE_STORE_*SCHEMA* STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE
        STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA STREAMING_QUERY_EVOLUTION_ERROR
        TRANSFORM_WITH_STATE_SCHEMA*""",
    ),
    _family(
        "state",
        "setting",
        "asks of the state store what it is not set up for",
        """STATE_STORE_INVALID_CONFIG* STATE_STORE_INVALID_PROVIDER STATE_STORE_PROVIDER_*
        STATE_STORE_UNSUPPORTED* STATE_STORE_*NOT_SUPPORTED STATE_STORE_CANNOT_CREATE*
        STATE_STORE_CANNOT_USE* STATE_STORE_INCORRECT_NUM*
        STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY STATE_STORE_CHECKPOINT_IDS_NOT_SUPPORTED
        STATE_STORE_*RESERVED* STREAM_STREAM_JOIN_INCOMPATIBLE* STATE_STORE_UNKNOWN_INTERNAL*
        STATEFUL_PROCESSOR_* STATE_REPARTITION_* STATE_REWRITER_*
        STREAMING_UNFINISHED_REPARTITION_DETECTED STDS_*""",
    ),
    _family(
        "state",
        "",
        "the state store failed; what it ran into is told further below in the text",
        """CANNOT_LOAD_STATE_STORE CANNOT_LOAD_STATE_STORE.UNCATEGORIZED CANNOT_WRITE_STATE_STORE*
        STATE_STORE_OPERATION_OUT_OF_ORDER STATE_STORE_INVALID_STAMP STATE_STORE_INVALID_STATE*
        STATE_STORE_HANDLE_NOT_INITIALIZED STDS_INTERNAL_ERROR INTERNAL_ERROR_TWS
        CANNOT_LOAD_STATE_STORE.* STATE_STORE_*""",
    ),
    # -- checkpoint -------------------------------------------------------------------------
    _family(
        "checkpoint",
        "corrupt",
        "a file of the checkpoint is not what Spark wrote, or of a later Spark",
        """MALFORMED_LOG_FILE INVALID_LOG_VERSION* CHECKPOINT_FILE_CHECKSUM* INCORRECT_END_OFFSET
        DELTA_INVALID_SOURCE_OFFSET_FORMAT DELTA_INVALID_SOURCE_VERSION
        DELTA_INVALID_FORMAT_FROM_SOURCE_VERSION DELTA_CANNOT_FIND_VERSION
        DELTA_STREAMING_SCHEMA_LOG_DESERIALIZE_FAILED
        DELTA_STREAMING_SCHEMA_LOG_PARSE_SCHEMA_FAILED""",
    ),
    _family(
        "checkpoint",
        "gone",
        "a file of the checkpoint is not there",
        """BATCH_METADATA_NOT_FOUND STREAMING_CHECKPOINT_MISSING_METADATA_FILE
        STDS_OFFSET_LOG_UNAVAILABLE STDS_OFFSET_METADATA_LOG_UNAVAILABLE
        CF_MISSING_METADATA_FILE_ERROR""",
    ),
    _family(
        "checkpoint",
        "",
        "the checkpoint's storage failed; what it ran into is told further below in the text",
        """CANNOT_LOAD_CHECKPOINT_FILE_MANAGER* FAILED_RENAME_TEMP_FILE
        STREAMING_CHECKPOINT_LOG_WRITE_FAILURE*""",
    ),
    _family(
        "checkpoint",
        "setting",
        "two runs on one checkpoint, or a checkpoint that this query may not go on from",
        """CONCURRENT_STREAM_LOG_UPDATE CONCURRENT_QUERY DELTA_CONCURRENT_TRANSACTION
        DELTA_STREAMING_SCHEMA_LOCATION_* DELTA_STREAMING_SCHEMA_LOG_*""",
    ),
    # -- sources ----------------------------------------------------------------------------
    _family(
        "source",
        "gone",
        "the source no longer has what the query was to read",
        """KAFKA_DATA_LOSS* LOST_TOPIC_PARTITIONS* FAILED_READ_FILE.FILE_NOT_EXIST
        END_OFFSET_HAS_GREATER_OFFSET* RESOLVED_START_OFFSET_GREATER* DELTA_MISSING_CHANGE_DATA
        MISMATCHED_TOPIC_PARTITIONS_BETWEEN_* DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE
        DELTA_MISSING_FILES_UNEXPECTED_VERSION DELTA_VERSION_NOT_FOUND
        DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE DELTA_SOURCE_*
        DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND*
        DELTA_STREAMING_CHECK_COLUMN_MAPPING_NO_SNAPSHOT DELTA_STREAMING_TRAILING_COMMIT_MISSING""",
    ),
    _family(
        "source",
        "schema",
        "the source's columns are others than the query was planned with",
        """DELTA_SCHEMA_CHANGE* DELTA_STREAMING_* DELTA_CHANGE_DATA_FEED_INCOMPATIBLE*
        FAILED_READ_FILE.PARQUET_COLUMN* FAILED_READ_FILE.UNSUPPORTED_FILE_SYSTEM PARQUET_*
        USER_SPECIFIED_AND_* UNABLE_TO_INFER_SCHEMA DELTA_READ_SOURCE_SCHEMA_CONFLICT
        AVRO_INCOMPATIBLE_READ_TYPE DATA_SOURCE_TABLE_SCHEMA_MISMATCH ERROR_READING_AVRO*
        INCOMPATIBLE_*VIEW_* INCOMPATIBLE_TABLE_CHANGE* INCOMPATIBLE_COLUMN_CHANGES*
        CANNOT_MERGE_SCHEMAS CANNOT_MERGE_INCOMPATIBLE_DATA_TYPE CONFLICTING_*
        EMPTY_PARTITION_COLUMN*""",
    ),
    _family(
        "source",
        "setting",
        "asks the source for what it refuses by a setting of the query or the table",
        """DELTA_SOURCE_IGNORE_DELETE DELTA_SOURCE_TABLE_IGNORE_CHANGES
        DELTA_CHANGE_TABLE_FEED_DISABLED KAFKA_START_OFFSET_DOES_NOT_MATCH*
        KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH* UNRESOLVED_START_OFFSET_GREATER* PATH_NOT_FOUND
        DATA_SOURCE_NOT_FOUND DATA_SOURCE_NOT_EXIST UNRESOLVED_TABLE_PATH
        MALFORMED_STATE_IN_RATE* INCORRECT_RAMP_UP_RATE DELTA_UNKNOWN_READ_LIMIT DELTA_CDC_*
        DELTA_INVALID_CDC_RANGE DELTA_NO_START_FOR_CDC_READ
        DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET DELTA_STREAMING_INITIAL_SNAPSHOT_TOO_LARGE
        DELTA_TIMESTAMP_GREATER_THAN_COMMIT DELTA_TIMESTAMP_INVALID DELTA_VERSION_INVALID
        DATA_SOURCE_*NOT_SUPPORTED DATA_SOURCE_*NOT_IMPLEMENTED FOUND_MULTIPLE_DATA_SOURCES
        RECURSIVE_FILE_LOOKUP* KAFKA_DATA_SOURCE_NOT_ENABLED JDBC_OBJECT_NOT_SELECTABLE""",
    ),
    _family(
        "source",
        "corrupt",
        "a file or record of the source cannot be read",
        """FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER CANNOT_READ_FILE_FOOTER
        DELTA_FAILED_READ_FILE_FOOTER INVALID_BUCKET_FILE KAFKA_MALFORMED_RECORD_TIMESTAMP""",
    ),
    _family(
        "source",
        "",
        "a file of the source was not read; why, is told further below in the text",
        "FAILED_READ_FILE FAILED_READ_FILE.NO_HINT FAILED_READ_FILE.*",
    ),
    # -- sinks ------------------------------------------------------------------------------
    _family(
        "sink",
        "",
        "rows were not written; why, is told further below in the text",
        """TASK_WRITE_FAILED FAILED_JDBC FAILED_JDBC.* FAILED_RENAME_PATH
        CANNOT_RESTORE_PERMISSIONS*""",
    ),
    _family(
        "sink",
        "refused",
        "another writer was there first, or the table's constraint does not let the rows in",
        """DELTA_CONCURRENT_* DELTA_MAX_COMMIT_RETRIES_EXCEEDED DELTA_METADATA_CHANGED
        DELTA_PROTOCOL_CHANGED* DELTA_*CONSTRAINT_VIOLAT* DELTA_VIOLATE_CONSTRAINT*
        DELTA_MISSING_NOT_NULL_COLUMN_VALUE DELTA_NOT_NULL_CONSTRAINT* DELTA_NEW_*_VIOLATION
        DELTA_REPLACE_WHERE_MISMATCH DELTA_MULTIPLE_SOURCE_ROW* DELTA_MERGE_MATERIALIZE*
        DELTA_CAST_OVERFLOW_IN_TABLE_WRITE DELTA_EXCEED_CHAR* *CONSTRAINT_VIOLATION
        NOT_NULL_ASSERT_VIOLATION DYNAMIC_PARTITION_WRITE_PARTITION_NUM* EXCEED_LIMIT_LENGTH
        MERGE_CARDINALITY_VIOLATION DELTA_CANNOT_MODIFY_APPEND_ONLY
        DELTA_ROW_TRACKING_BACKFILL_RUNNING* DELTA_FEATURE_DROP_CONFLICT*""",
    ),
    _family(
        "sink",
        "schema",
        "what is written and the table's columns do not fit each other",
        """INCOMPATIBLE_DATA_FOR_TABLE* DELTA_METADATA_MISMATCH DELTA_FAILED_TO_MERGE_FIELDS
        DELTA_MERGE_INCOMPATIBLE* INSERT_*ARITY_MISMATCH DELTA_INSERT_COLUMN*
        DELTA_UPDATE_SCHEMA_MISMATCH* DELTA_COLUMN_STRUCT_TYPE_MISMATCH
        DELTA_SCHEMA_NOT_CONSISTENT* DELTA_NULL_SCHEMA* CAST_OVERFLOW_IN_TABLE_INSERT
        AVRO_CANNOT_WRITE_NULL_FIELD UNSUPPORTED_AUTO_SCHEMA_EVOLUTION* *SCHEMA_EVOLUTION
        UNSUPPORTED_TABLE_CHANGE_IN_AUTO_SCHEMA_EVOLUTION DELTA_MISSING_COLUMN""",
    ),
    _family(
        "sink",
        "corrupt",
        "the table's log or a file of it is damaged",
        """DELTA_STATE_RECOVER_ERROR DELTA_TRUNCATED_TRANSACTION_LOG DELTA_VERSIONS_NOT_CONTIGUOUS
        DELTA_TXN_LOG_FAILED_INTEGRITY DELTA_CHECKPOINT_SNAPSHOT_MISMATCH
        DELTA_DELETION_VECTOR_* DELTA_MISSING_PART_FILES DELTA_NO_COMMITS_FOUND
        DELTA_NO_RECREATABLE_HISTORY_FOUND DELTA_METADATA_ABSENT* DELTA_UNRECOGNIZED_LOGFILE
        DELTA_UNRECOGNIZED_FILE_ACTION DELTA_MISSING_COMMIT_* DELTA_DV_HISTOGRAM*
        DELTA_NUM_RECORDS_MISMATCH DELTA_INVALID_COMMITTED_VERSION""",
    ),
    _family(
        "",
        "gone",
        "a file that Delta's log names is not there; whether of the sink, the frames tell",
        """DELTA_FILE_NOT_FOUND* DELTA_LOG_FILE_NOT_FOUND DELTA_FILE_OR_DIR_NOT_FOUND
        DELTA_FILE_TO_OVERWRITE_NOT_FOUND DELTA_EMPTY_DIRECTORY""",
    ),
    _family(
        "sink",
        "setting",
        "asks the sink for what it does not do",
        """KAFKA_NULL_TOPIC_IN_DATA UNSUPPORTED_DATA_SOURCE_SAVE_MODE UNSUPPORTED_SAVE_MODE*
        UNSUPPORTED_OVERWRITE* UNSUPPORTED_INSERT* VIEW_WRITE_NOT_ALLOWED PATH_ALREADY_EXISTS
        TABLE_OR_VIEW_ALREADY_EXISTS DELTA_UNSUPPORTED_OUTPUT_MODE DELTA_ILLEGAL_OPTION
        DELTA_INVALID_IDEMPOTENT* DATA_SOURCE_STREAMING_WRITE* DATA_SOURCE_BATCH_WRITE*
        DATA_SOURCE_DELTA_* GRAPHITE_SINK_* JDBC_EXTERNAL_ENGINE_SYNTAX_ERROR
        DELTA_UNSUPPORTED_FEATURES_FOR_WRITE *_COLUMN_NAME_AS_PATH""",
    ),
    # -- shuffle, memory, machines --------------------------------------------------------------
    _family(
        "machine",
        "memory",
        "no memory left for Spark's own structures",
        """UNABLE_TO_ACQUIRE_MEMORY *_OUT_OF_MEMORY CONNECT_ML.*OVERFLOW* KRYO_BUFFER_OVERFLOW
        _LEGACY_ERROR_TEMP_2105 _LEGACY_ERROR_TEMP_2106 _LEGACY_ERROR_TEMP_2107
        _LEGACY_ERROR_TEMP_2250 _LEGACY_ERROR_TEMP_3301 _LEGACY_ERROR_TEMP_3302
        _LEGACY_ERROR_TEMP_2248 _LEGACY_ERROR_TEMP_2249 _LEGACY_ERROR_TEMP_2110""",
    ),
    _family(
        "shuffle",
        "corrupt",
        "what one stage hands to the next arrives otherwise than it was sent",
        "STREAMING_SHUFFLE_*",
    ),
    _family(
        "shuffle",
        "unreachable",
        "the executor that reads or writes the shuffle did not answer",
        "STREAMING_SHUFFLE_*TIMEOUT",
    ),
    _family(
        "machine",
        "gone",
        "a block went with the executor that held it",
        """CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND _LEGACY_ERROR_TEMP_3003 _LEGACY_ERROR_TEMP_3007
        _LEGACY_ERROR_TEMP_3036 _LEGACY_ERROR_TEMP_3042""",
    ),
    _family(
        "machine",
        "unreachable",
        "one part of Spark did not answer another",
        """STREAMING_PYTHON_RUNNER_INITIALIZATION_TIMEOUT* INTERNAL_ERROR_NETWORK
        _LEGACY_ERROR_TEMP_3033""",
    ),
    _family(
        "driver",
        "killed",
        "somebody ended it: a stop, a cancelled job, a closed session",
        """SPARK_JOB_CANCELLED OPERATION_CANCELED INVALID_HANDLE* INVALID_CURSOR*
        SPARK_CONNECT_ILLEGAL_STATE* DELTA_ACTIVE_SPARK_SESSION_NOT_FOUND
        DELTA_SPARK_SESSION_NOT_SET DELTA_ITERATOR_ALREADY_CLOSED CONNECT.SESSION_NOT_SAME""",
    ),
    # -- the user's code and data -----------------------------------------------------------
    _family(
        "user_code",
        "bug",
        "a value in the data that the query's expressions do not take (SQLSTATE class 22, 21, 23)",
        """*_OVERFLOW *_OVERFLOW.* *DIVIDE_BY_ZERO *DIVIDED_BY_ZERO REMAINDER_BY_ZERO CAST_*
        CONVERSION_INVALID_INPUT CANNOT_PARSE_* CANNOT_DECODE_URL MALFORMED_*
        INVALID_ARRAY_INDEX* INVALID_INDEX_OF_ZERO INVALID_FRACTION_OF_SECOND INVALID_JSON_R*
        INVALID_UTF8_STRING INVALID_URL INVALID_VARIANT_* INVALID_BITMAP_POSITION
        INVALID_BYTE_STRING INVALID_DATETIME_PATTERN* INVALID_INTERVAL_* INVALID_TIMEZONE
        INVALID_NUMERIC* INVALID_REGEXP_REPLACE INVALID_KRYO_SERIALIZER_NO_DATA INVALID_VECTOR*
        INVALID_EXTERNAL_TYPE NULL_MAP_KEY DUPLICATED_MAP_KEY DUPLICATE_KEY ROW_VALUE_IS_NULL
        NUMERIC_*OUT_OF* DATETIME_* ILLEGAL_DAY_OF_WEEK COMPARATOR_RETURNS_NULL
        FAILED_PARSE_STRUCT_TYPE FAILED_ROW_TO_JSON *SKETCH* HLL_* KLL_* THETA_* TUPLE_*
        WKB_PARSE_ERROR ST_INVALID* VARIANT_* VECTOR_* UNKNOWN_PRIMITIVE_TYPE*
        COLLECTION_SIZE_LIMIT* TOO_MANY_ARRAY_ELEMENTS STRUCT_ARRAY_LENGTH_MISMATCH
        NEGATIVE_VALUES_IN* SUM_OF_LIMIT* COLUMN_ORDINAL* *_SUBQUERY_TOO_MANY_ROWS
        COLUMN_ARRAY_ELEMENT_TYPE_MISMATCH NOT_NULL_* EMPTY_JSON_FIELD_VALUE APPROX_TOP_K_*
        DECIMAL_* COUNTER_DIFF_* BIN_BY_NULL_ARGUMENT EXPRESSION_DECODING_FAILED
        EXPRESSION_ENCODING_FAILED AUTOCDC_MICROBATCH* INVALID_BOUNDARY* TRANSPOSE_EXCEED*
        SECOND_FUNCTION_ARGUMENT* CANNOT_CONVERT_SQL_VALUE* ARROW_SCHEMA_* ARROW_TYPE_MISMATCH""",
    ),
    _family(
        "user_code",
        "",
        "a function of the user's raised (SQLSTATE 38, 39, P0); what it ran into is told with it",
        """FAILED_EXECUTE_UDF UDF_USER_CODE_ERROR UDF_PYSPARK_USER_CODE_ERROR UDF_PYSPARK_ERROR
        USER_RAISED_EXCEPTION* *_USER_FUNCTION_ERROR
        STREAMING_PYTHON_RUNNER_INITIALIZATION_FAILURE
        STREAMING_PYTHON_RUNNER_INITIALIZATION_COMMUNICATION* TABLE_VALUED_FUNCTION_FAILED*
        EMITTING_ROWS_OLDER_THAN_WATERMARK* CLASS_NOT_OVERRIDE* INVALID_UDF_IMPLEMENTATION
        NO_UDF_INTERFACE MULTI_UDF_INTERFACE* CANNOT_INVOKE_IN_TRANSFORMATIONS
        DELTA_TABLE_FOUND_IN_EXECUTOR DELTA_SPARK_THREAD_NOT_FOUND
        FAILED_REGISTER_CLASS_WITH_KRYO LABEL* CURSOR_* RECURSION_*_LIMIT* UDT_CLASS_*""",
    ),
    _family(
        "source",
        "",
        "the user's own data source raised; what it ran into is told with it",
        "PYTHON_DATA_SOURCE_ERROR PYTHON_STREAMING_DATA_SOURCE*",
    ),
    # -- the query as it is written, and how it is set up -----------------------------------------
    _family(
        "user_code",
        "schema",
        "the query names columns, types or tables that are not so (SQLSTATE 42: before it runs)",
        """UNRESOLVED_* AMBIGUOUS_* DATATYPE_* *_MISMATCH *_MISMATCH.* COLUMN_* FIELD_* FIELDS_*
        *_COLUMN CANNOT_RESOLVE_* CANNOT_CAST* CANNOT_UP_CAST* CANNOT_CONVERT_*
        CANNOT_RECOGNIZE* INCOMPATIBLE_COLUMN_TYPE INCOMPATIBLE_JOIN_TYPES PROTOBUF_*
        NO_SQL_TYPE* UNKNOWN_PROTOBUF* UNABLE_TO_CONVERT* UNABLE_TO_INFER_PIPELINE*
        RECURSIVE_PROTOBUF* CANNOT_LOAD_PROTOBUF* TABLE_OR_VIEW_NOT_FOUND VIEW_NOT_FOUND
        SCHEMA_NOT_FOUND *_SCHEMA NULLABLE_* EVENT_TIME_* NUM_* DUPLICATED_FIELD*
        INVALID_*SCHEMA* INVALID_COLUMN* INVALID_FIELD* INVALID_EXTRACT* INVALID_*DATA_TYPE*
        *_NOT_IN_SELECTED_SCHEMA NONEXISTENT_FIELD* UNSUPPORTED_*DATATYPE*
        UNSUPPORTED_DATA_TYPE* UNSUPPORTED_ARROWTYPE AVRO_* EMPTY_SCHEMA*
        UNSUPPORTED_DESERIALIZER* ENCODER_NOT_FOUND CORRUPTED_CATALOG* FAILED_UPDATE_VIEW_SCHEMA""",
    ),
    _family(
        "user_code",
        "setting",
        "the query asks what Spark does not do (SQLSTATE 0A, 42, 54, 07: before it runs)",
        """UNSUPPORTED_* NOT_SUPPORTED_* *_NOT_SUPPORTED *_UNSUPPORTED *_NOT_ALLOWED
        *_NOT_ALLOWED_* NOT_ALLOWED_* CALL_ON_STREAMING* STREAMING_OUTPUT_MODE*
        STREAMING_REAL_TIME_MODE* WRITE_STREAM_NOT_ALLOWED NOT_STREAMING_DATASET
        NON_TIME_WINDOW* CANNOT_ASSIGN_EVENT* INVALID_* MISSING_* MULTI_* MULTIPLE_* DUPLICATE_*
        DUPLICATED_* NESTED_* NON_* NOT_A_* NOT_UNRESOLVED_ENCODER NO_* PARSE_* AS_OF_JOIN*
        GROUP_* GROUPING_* WINDOW_* UNPIVOT_* TRANSPOSE_* PIVOT_* MERGE_* RECURSIVE_*
        IDENTITY_COLUMN* GENERATED_COLUMN* DEFAULT_* REF_DEFAULT* PARTITION* VIEW_* ROUTINE_*
        VARIABLE_* CONSTRAINT_* INDEX_* LOCATION_* TEMP_* CREATE_* ALTER_* ADD_* INSERT_*
        SPECIFY_* SORT_BY* ORDER_BY* STAR_* QUALIFY_* REPEATED_* REQUIRE* PIPE_* PIPELINE_*
        MATERIALIZED_* LATERAL_* EXCEPT_* EXEC_* EXPECT_* EXPRESSION_* AGGREGATE_* ASSIGNMENT_*
        HINT_* IDENTIFIER_* COLLATION_* INDETERMINATE_* INCOMPARABLE_* INCOMPLETE_* JOIN_*
        SCALAR_* SEED_* SHOW_* STATIC_* STORAGE_PARTITION* SYNTAX_* TABLE_* TRAILING_*
        TRUNCATE_* UDTF_* UNBOUND_* UNCLOSED_* UNION_* UNRECOGNIZED_* UNRESOLVABLE_* UNTYPED_*
        USER_DEFINED_* WRONG_* XML_* V2_* ALL_* APPEND_ONCE* ASOF_JOIN_* BIN_BY_* EXPLODE_*
        ORC_DATA_SOURCE_REQUIRES* PIPELINED_* RESERVED_DATABASE_NAME ZIP_* ARTIFACT_* ATTEMPT_*
        AUTOCDC_* BEAN_* CANNOT_* CATALOG_* CHECK_* CIRCULAR_* CLASS_* CLUSTERING_* CODEC_*
        COMPLEX_* CONNECT_* CONNECT_*.* CYCLIC_* DATAFLOW_* DATAFRAME_* DATA_SOURCE_* DEFINE_*
        DESCRIBE_* DISTINCT_* DYNAMIC_* END_LABEL* FEATURE_* FORBIDDEN_* FAILED_TO_* GEO_*
        GET_TABLES_* HLL_K* INCOMPATIBLE_DATASOURCE* LOAD_DATA* LOCAL_* NAMED_* NEAREST_*
        NEGATIVE_SCALE* NULL_* OPTION_* PROTOBUF_NOT_LOADED* RENAME_* RUN_EMPTY* SCHEMA_* SQL_*
        STATEFUL_CHILDREN* TUPLE_IS_EMPTY TUPLE_SIZE* UNABLE_TO_FETCH* UNSET_* INSUFFICIENT_*
        COLUMN_ALIASES* CANNOT_USE_KRYO KLL_SKETCH_K_MUST* THETA_LG*CONSTANT OPERATION_*
        ILLEGAL_* *_ALREADY_EXISTS *_NOT_FOUND *_NOT_EXISTS""",
    ),
    _family(
        "driver",
        "setting",
        "a configuration of Spark's (SQLSTATE 46110, F0, 56)",
        """INVALID_CONF* INVALID_SPARK_CONFIG* INVALID_DRIVER_MEMORY INVALID_EXECUTOR_MEMORY
        INVALID_KRYO_SERIALIZER_BUFFER* SQL_CONF_NOT_FOUND CANNOT_MODIFY_* FEATURE_NOT_ENABLED
        CODEC_NOT_AVAILABLE* DELTA_CONFIGURE_SPARK_SESSION* DELTA_*LOGSTORE*
        DELTA_UNKNOWN_CONFIGURATION DELTA_UNSUPPORTED_FEATURES_IN_CONFIG DELTA_CONF_*
        DELTA_INCORRECT_LOG_STORE* INTERNAL_ERROR_METADATA_CATALOG*
        MISSING_TIMEOUT_CONFIGURATION CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT
        DELTA_MISSING_ICEBERG_CLASS _LEGACY_ERROR_TEMP_2097""",
    ),
    _family(
        "user_code",
        "setting",
        "Spark's templates of the parser and the analyzer (0000 to 1399): the query as written",
        "_LEGACY_ERROR_TEMP_0* _LEGACY_ERROR_TEMP_1*",
    ),
    _family(
        "user_code",
        "setting",
        "a command on a Delta table that Delta does not take as it is written",
        "DELTA_* INCORRECT_NUMBER_OF_ARGUMENTS RESERVED_CDC_COLUMNS_ON_WRITE",
    ),
)

#: By the first two letters of a SQLSTATE, for conditions of a version that is not known here.
SQLSTATES: Final[dict[str, tuple[str, str]]] = {
    "07": ("user_code", "setting"),
    "08": ("user_code", "unreachable"),
    "0A": ("user_code", "setting"),
    "21": ("user_code", "bug"),
    "22": ("user_code", "bug"),
    "23": ("sink", "refused"),
    "28": ("user_code", "denied"),
    "2D": ("sink", "refused"),
    "38": ("user_code", "bug"),
    "39": ("user_code", "bug"),
    "42": ("user_code", "setting"),
    "46": ("driver", "setting"),
    "53": ("machine", "memory"),
    "54": ("user_code", "setting"),
    "56": ("driver", "setting"),
    "82": ("machine", "memory"),
    "F0": ("driver", "setting"),
    "P0": ("user_code", "bug"),
}

#: What PySpark's own code says has names of its own (``pyspark/errors/error-conditions.json``) that
#: the families above would read as Spark's. It is a fault of the function that was run, but for:
PYSPARK: Final[tuple[Family, ...]] = (
    _family(
        "user_code",
        "setting",
        "what is installed or set is not what PySpark needs",
        """PYTHON_VERSION_MISMATCH PACKAGE_NOT_INSTALLED UNSUPPORTED_PACKAGE_VERSION
        ARROW_LEGACY_IPC_FORMAT PYTHON_HASH_SEED_NOT_SET MISSING_LIBRARY_FOR_PROFILER
        INCORRECT_CONF_FOR_PROFILE DATA_SOURCE_PUSHDOWN_DISABLED JAVA_GATEWAY_EXITED
        PANDAS_API_ON_SPARK_FAIL_ON_ANSI_MODE MASTER_URL_INVALID MASTER_URL_NOT_SET
        APPLICATION_NAME_NOT_SET CONNECT_URL_NOT_SET INVALID_CONNECT_URL""",
    ),
    _family(
        "",
        "",
        "carries an error that tells what",
        """ERROR_OCCURRED_WHILE_CALLING PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR
        UDTF_EXEC_ERROR CANNOT_OPEN_SOCKET PIPE_FUNCTION_EXITED""",
    ),
)

_CONDITION: Final = re.compile(r"\[([A-Z_][A-Z0-9_]{2,150}(?:\.[A-Z0-9_]{1,150})?)\]")
_SQLSTATE: Final = re.compile(r"SQLSTATE: ([0-9A-Z]{5})\b")


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(text).replace(r"\*", ".*"))


_EXACT: Final = {
    pattern: family for family in FAMILIES for pattern in family.patterns if "*" not in pattern
}
_GLOBS: Final = sorted(
    (
        (_pattern(pattern), family, len(pattern.replace("*", "")))
        for family in FAMILIES
        for pattern in family.patterns
        if "*" in pattern
    ),
    key=lambda one: -one[2],
)


@lru_cache(maxsize=512)
def family_of(name: str) -> Family | None:
    """The family of a condition, None where no pattern knows its name."""
    top = name.split(".", 1)[0]
    for one in (name, top) if top != name else (name,):
        if one in _EXACT:
            return _EXACT[one]
        for pattern, family, _ in _GLOBS:
            if pattern.fullmatch(one) and ("." in one) == (
                "." in pattern.pattern.replace(".*", "")
            ):
                return family
    return None


def conditions_in(message: str) -> list[str]:
    """The names in brackets that a message carries, in order."""
    return _CONDITION.findall(message)


def kind_in_pyspark(name: str) -> str:
    """The kind of a condition that PySpark's own code names; empty where its message tells."""
    return next((family.kind for family in PYSPARK if name in family.patterns), "bug")


def place_of_condition(name: str, message: str) -> tuple[str, str] | None:
    """Where and of what kind a named condition is, by its name, else by the SQLSTATE told with it.

    None where neither is known; empty strings where the name tells nothing.
    """
    family = family_of(name)
    return _by_state(message) if family is None else (family.where, family.kind)


def place_by_state(name: str, message: str) -> tuple[str, str] | None:
    """What the SQLSTATE says of a condition that is not known, or of which a source is all that is.

    Of the second, that it is a setting: a source's other states are as general as its names.
    """
    told, family = _by_state(message), family_of(name)
    if told is None or family is None:
        return told
    of_source = family.where == "source" and not family.kind and told[1] == "setting"
    return (family.where, told[1]) if of_source else None


def _by_state(message: str) -> tuple[str, str] | None:
    state = _SQLSTATE.search(message)
    return None if state is None else SQLSTATES.get(state[1][:2])
