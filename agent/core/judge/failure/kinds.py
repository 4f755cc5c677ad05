"""What happened, by the class of an exception and by what it says.

A kind is one of the contract's ``what``, or finer where the cause depends on it: ``denied`` (a
credential or a permission, shown as ``refused``) and ``absent`` (a name that is not known: gone if
it was there before, else a setting); or not told yet: ``argument`` and ``said``, see ``COMMON``.
``told`` says what decides: a class or words made for one thing, or a class that many things share
and that is believed only where nothing else speaks.
"""

from __future__ import annotations

import re
from typing import Final

from agent.core.judge.failure import names as failure_names


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


#: Classes of connectors, drivers and clients by their simple names, so that shaded and moved ones
#: are known too; and those of ``failure_names`` that mean more than one thing there.
CLASSES: Final[tuple[tuple[str, frozenset[str]], ...]] = (
    (
        "memory",
        _names(
            """OutOfMemoryError MemoryError _ArrayMemoryError ArrowMemoryError
            OutOfMemoryException OutOfDirectMemoryError"""
        ),
    ),
    (
        "denied",
        _names(
            """SaslAuthenticationException TopicAuthorizationException
            GroupAuthorizationException ClusterAuthorizationException
            TransactionalIdAuthorizationException AuthenticationException
            AuthorizationException AccessControlException MongoSecurityException
            JedisAccessControlException GSSException LoginException
            SQLInvalidAuthorizationSpecException NoCredentialsError PartialCredentialsError
            TokenRefreshError DefaultCredentialsError RefreshError ClientAuthenticationError
            CredentialUnavailableError AdalException MsalServiceException AuthorizationError
            AuthenticationError KerberosAuthException PermissionError
            SslAuthenticationException ReceiverDisconnectedException
            DelegationTokenExpiredException IllegalSaslStateException
            CredentialsNotFoundException CertificateException CertPathValidatorException
            SunCertPathBuilderException ValidatorException InvalidCredentialsException
            HttpUnauthorizedException UnauthorizedAccessException"""
        ),
    ),
    (
        "throttled",
        _names(
            """RequestRateTooLargeException BulkRejectedException TooManyMessagesException
            BackpressureException KustoServiceThrottledException"""
        ),
    ),
    (
        "unreachable",
        _names(
            """ConnectException ConnectionRefusedError ConnectTimeoutException
            SocketTimeoutException HttpHostConnectException ConnectionPoolTimeoutException
            UnknownHostException NoRouteToHostException gaierror ConnectionResetError
            BrokenPipeError SocketException ClosedChannelException ConnectionAbortedError
            SSLHandshakeException NoHttpResponseException EndpointConnectionError
            ConnectTimeoutError ConnectTimeout ConnectionClosedError NewConnectionError
            MaxRetryError NameResolutionError ServerSelectionTimeoutError
            MongoTimeoutException MongoSocketOpenException MongoSocketReadException
            MongoSocketWriteException MongoSocketReadTimeoutException MongoSocketException
            MongoConnectionPoolClearedException MongoNotPrimaryException
            MongoNodeIsRecoveringException AutoReconnect NotPrimaryError
            NoHostAvailableException NoHostAvailable AllNodesFailedException
            NoNodeAvailableException DriverTimeoutException BusyConnectionException
            BusyPoolException EsHadoopNoNodesLeftException EsHadoopTransportException
            JedisConnectionException RedisConnectionException RedisTimeoutException
            RedisCommandTimeoutException JedisClusterMaxAttemptsException
            JedisClusterOperationException SQLTransientConnectionException
            SQLNonTransientConnectionException CommunicationsException SQLTimeoutException
            NotLeaderForPartitionException NotLeaderOrFollowerException
            BrokerNotAvailableException NetworkException NotEnoughReplicasException
            NotEnoughReplicasAfterAppendException CommunicationException GoneException
            RetriableCommitFailedException ConnectionTimeout KafkaTimeoutError
            NoBrokersAvailable NodeNotReadyError KafkaConnectionError BrokerServiceException
            LookupException ConnectionLossException MasterNotRunningException
            ZooKeeperConnectionException NoServerForRegionException
            RegionServerStoppedException RetriesExhaustedException CallTimeoutException
            PSQLConnectionError AMQPConnectionError StreamLostError ConnectionForced
            UnresolvedAddressException PrematureCloseException
            ConnectionClosedException ConnectionIsClosedException ConnectionRefusedException
            HttpTimeoutException InterfaceError DatabaseShutdownException
            MongoServerUnavailableException ServiceRequestError ServiceResponseError
            AlreadyClosedException ConnectionShutdown ReconnectException"""
        ),
    ),
    (
        "gone",
        _names("""FileNotFoundException NoSuchFileException NoOffsetForPartitionException"""),
    ),
    (
        "absent",
        _names(
            """UnknownTopicException IllegalEntityException MessagingEntityNotFoundException
            NoSuchTableException NoSuchNamespaceException NoSuchDatabaseException
            TopicDoesNotExistException SubscriptionNotFoundException TableNotFoundException
            TopicNotFoundException QueueDoesNotExistException"""
        ),
    ),
    (
        "setting",
        _names(
            """ConfigException ClassNotFoundException NoClassDefFoundError NoSuchMethodError
            AbstractMethodError IncompatibleClassChangeError UnsupportedClassVersionError
            NoSuchFieldError LinkageError VerifyError ExceptionInInitializerError
            UnsatisfiedLinkError ServiceConfigurationError ModuleNotFoundError ImportError
            NoSuchModuleError InvalidTopicException InvalidTxnTimeoutException
            UnsupportedVersionException UnsupportedSaslMechanismException
            SparkUpgradeException InvalidGroupIdException JedisExhaustedPoolException
            UnsupportedFileSystemException MalformedURLException
            EsHadoopIllegalArgumentException URISyntaxException NoSuchMethodException
            ProviderNotFoundException PropertiesCredentialsException
            DataSourceNotFoundException HoodieNotSupportedException ParamValidationError
            NoRegionError ConcurrentTransactionException"""
        ),
    ),
    (
        "schema",
        _names(
            """SchemaParseException SchemaColumnConvertNotSupportedException
            HoodieAvroSchemaException MissingSchemaFieldException
            SchemaCompatibilityException IncompatibleSchemaException
            InternalHoodieSchemaException StateSchemaNotCompatible
            ParquetSchemaColumnConvertNotSupportedException SchemaEvolutionException"""
        ),
    ),
    (
        "corrupt",
        _names(
            """ChecksumException CorruptRecordException
            CorruptedFileException InvalidUnsafeRowException ParquetDecodingException
            BadZipFile CorruptFileException FileCorruptException KryoException
            HoodieCorruptedDataException"""
        ),
    ),
    (
        "refused",
        _names(
            """BatchUpdateException SQLIntegrityConstraintViolationException IntegrityError
            InvalidRecordException FileAlreadyExistsException
            UniqueViolation NotNullViolation ForeignKeyViolation CheckViolation
            RecordTooLargeException RecordBatchTooLargeException VersionConflictException
            ConcurrentAppendException ConcurrentWriteException ConcurrentDeleteReadException
            ConcurrentDeleteDeleteException LeaseExpiredException
            MetadataChangedException ProtocolChangedException ProducerFencedException
            OutOfOrderSequenceException DeadlockLoserDataAccessException
            PayloadSizeExceededException MapperParsingException DocumentParsingException
            StrictDynamicMappingException DeadlockDetected SerializationFailure
            MessageTooLargeException PolicyViolationException
            UnsupportedForMessageFormatException InvalidTimestampException"""
        ),
    ),
    (
        "bug",
        _names(
            """NullPointerException ClassCastException MatchError ArithmeticException
            NumberFormatException IndexOutOfBoundsException ArrayIndexOutOfBoundsException
            StringIndexOutOfBoundsException StackOverflowError NegativeArraySizeException
            ZeroDivisionError KeyError ValueError TypeError AttributeError IndexError
            NameError UnboundLocalError UnicodeDecodeError JSONDecodeError RecursionError
            PicklingError NotSerializableException DateTimeException DateTimeParseException
            ParseError JsonParseException JsonMappingException MismatchedInputException
            InvalidFormatException AvroRuntimeException AvroTypeException
            DeserializationException SerializationException InvalidProtocolBufferException
            PatternSyntaxException SparkArithmeticException SparkDateTimeException
            SparkNumberFormatException ArrayStoreException CloneNotSupportedException
            UnsupportedTemporalTypeException MalformedInputException DataError_ OverflowError
            UnicodeEncodeError StopIteration NotImplementedError UDFException ArrowInvalid
            ArrowTypeError ArrowNotImplementedError PySparkTypeError PySparkValueError
            PySparkAttributeError EvaluationException ModuleNotFoundError_ SyntaxError
            IndentationError ArithmeticError FloatingPointError InvalidOperation ParserError
            XMLSyntaxError SAXParseException"""
        ),
    ),
    (
        "killed",
        _names(
            """InterruptedException InterruptedIOException ClosedByInterruptException
            KeyboardInterrupt SystemExit TaskKilledException TaskKilled InterruptException
            QueryExecutionInterrupted Py4JNetworkError CancellationException"""
        ),
    ),
)

#: Classes that many things share: what they mostly are, where nothing else tells. ``argument`` is
#: a setting while a query is made and a fault while it runs; ``said`` is what a service's client
#: throws for whatever the service answers: no kind.
COMMON: Final[tuple[tuple[str, frozenset[str]], ...]] = (
    (
        "unreachable",
        _names(
            """TimeoutException TimeoutError TimeoutExpired Timeout ConnectionError
            ConnectionException NetworkError RpcTimeoutException SQLRecoverableException
            SQLTransientException OperationalError EOFException EOFError TTransportException
            ShutdownSignalException CommitStateUnknownException"""
        ),
    ),
    (
        "setting",
        _names("AnalysisException ParseException SQLSyntaxErrorException ProgrammingError"),
    ),
    (
        "argument",
        _names(
            """IllegalArgumentException NoSuchElementException SparkNoSuchElementException
            SparkIllegalArgumentException UnsupportedOperationException
            SparkUnsupportedOperationException InvalidInputException UnsupportedOperationError"""
        ),
    ),
    ("schema", _names("SQLDataException DataError")),
    ("gone", _names("FetchFailedException MetadataFetchFailedException")),
    ("bug", _names("AssertionError RuntimeError Exception Error Failure BaseException")),
    (
        "refused",
        _names(
            """EsHadoopInvalidRequest OpenSearchHadoopInvalidRequest ValidationException
            InvalidRequestException TransactionAbortedException InvalidQueryException BadRequest
            BadRequestError CommitFailedException WriteError MongoWriteException
            MongoBulkWriteException BulkWriteError InvalidArgumentException
            ParentNotDirectoryException ConcurrentModificationException"""
        ),
    ),
    (
        "said",
        _names(
            """EsHadoopRemoteException EsHadoopException OpenSearchHadoopException
            OpenSearchHadoopRemoteException IngestionServiceException IngestionClientException
            SQLException SQLServerException PSQLException
            KafkaException DatabaseError SnowflakeSQLException JedisDataException ResponseError
            ElasticsearchException OpenSearchException CosmosException DocumentClientException
            BigQueryException RemoteException KustoDataException MySQLSyntaxErrorException
            AmazonServiceException AwsServiceException MongoCommandException OperationFailure
            CouchbaseException SnowflakeConnectorException StarrocksException
            StreamLoadException StreamLoadFailException DorisException PulsarClientException
            OracleDatabaseException HttpErrorException IngestionException CosmosClientException
            RestClientException ServiceBusException HTTPError ApiException SdkClientException
            AmazonClientException SdkException MongoException RpcException AmazonS3Exception
            S3Exception StorageException AbfsRestOperationException HttpResponseException
            StatusRuntimeException ClientError GrpcException CHServerException
            ClickHouseException ClickHouseSQLException RemoteSolrException SolrServerException
            SolrException InfluxException NebulaException DynamoDbException
            AmazonDynamoDBException AmazonKinesisException KinesisException PulsarAdminException
            EventHubException GoogleJsonResponseException BigQueryConnectorException
            MongoServerException RedisException ResponseException TException"""
        ),
    ),
)

_SIMPLE: Final = {name: kind for kind, names in CLASSES for name in names}
_SHARED: Final = {name: kind for kind, names in COMMON for name in names}

#: What the name of a class says that no list has: (kind, parts of the name).
NAME_PARTS: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    ("memory", re.compile(r"OutOfMemory|MemoryLimit")),
    (
        "denied",
        re.compile(
            r"Auth(?!or(?!iz))|Unauthorized|Forbidden|Permission|Credential|Denied|Certificate"
            r"|Signature|Token|Untrusted"
        ),
    ),
    (
        "throttled",
        re.compile(
            r"Throttl|RateLimit|Quota|TooMany|ResourceExhausted|Overload|Busy|(?:Queue|Pool|Buffer)(?:IsFull|Full)"
        ),
    ),
    (
        "unreachable",
        re.compile(
            r"Time(?:d)?Out|Timeout|Unavailable|NotAvailable|Connect|RetriesExhausted|Transient|Retr(?:y|iable)"
            r"|Network|Unreachable|Socket|NotLeader|NotPrimary|NotReady|Offline|Disconnect|Failover|Moved"
            r"|Stopped|Shut[dD]own|Closed"
        ),
    ),
    ("absent", re.compile(r"NotFound|NoSuch|NotExist|DoesntExist")),
    ("schema", re.compile(r"Schema|IncompatibleType|TypeMismatch|TypeConversion")),
    ("corrupt", re.compile(r"Corrupt|Checksum|Truncated|Crc")),
    (
        "refused",
        re.compile(
            r"Conflict|Exists|Constraint|Duplicate|Concurrent|Rejected|Fenc(?:ed|ing)|Lock|Too(?:Large|Big|Long)"
            r"|Deadlock|Rollback|Violation|Aborted|InUse"
        ),
    ),
    ("setting", re.compile(r"Config|Unsupported|InvalidArgument|InvalidOption|NotSupported")),
    (
        "bug",
        re.compile(
            r"Pars(?:e|ing)|Decod|Encod|Syntax|Malformed|Conversion|(?:De)?[sS]erializ|Arithmetic"
        ),
    ),
    ("killed", re.compile(r"Interrupted|Cancel")),
)

#: What is said, in the order in which it is believed: what names a resource first, what several
#: causes share last. (kind, where it is by these words alone or empty, a pattern each line)
WORDS: Final[tuple[tuple[str, str, str], ...]] = (
    (
        "disk",
        "",
        r"""
        No space left on device
        Disk quota exceeded
        [sS]pace ?quota of [^\n]{0,200} exceeded
        (?:DS|NS)QuotaExceededException
        ENOSPC
        not enough space\b
        DiskErrorException
        ephemeral-storage
        Input/output error
        [eE]xit(?:ed with)? (?:code|status):? (?:is )?5[35]\b
        [Dd]isk ?[Pp]ressure
        disk (?:is )?full
        No local directories
        could not find any valid local directory
        local-dirs? [^\n]{0,200}(?:bad|usable space|utilization)
        (?:out of|not enough|lack of|low on) (?:free |local |available )?disk(?: space)?\b
        [Ff]ailed to create (?:a )?local dir
        [Ii]nsufficient (?:free |usable |disk )?space
        minimum free (?:disk|drive) threshold
        directory item limit of
        """,
    ),
    (
        "memory",
        "machine",
        r"""
        OOMKilled
        [Cc]ontainer killed (?:by YARN|on request)[^\n]{0,60}memory
        exceeding (?:physical |virtual )?memory limits
        GC overhead limit
        Java heap space
        Unable to acquire \d+ bytes of memory
        Unable to allocate \d
        std::bad_alloc
        Cannot allocate memory
        Requested array size exceeds VM limit
        [Oo]ut[ _]?[Oo]f[ _]?[Mm]emory
        [eE]xit(?:ed with)? (?:code|status):? (?:is )?52\b
        Direct buffer memory
        unable to create (?:new )?native thread
        Metaspace
        exitCode=137, reason=OOM
        Kryo serialization failed: Buffer overflow
        possible (?:container )?OOM
        oom-kill
        """,
    ),
    ("memory", "driver", r"maxResultSize|Cannot broadcast the table that is larger"),
    ("setting", "driver", r"Could not execute broadcast"),
    (
        "bug",
        "user_code",
        r"""
        Fatal Python error: (?:Segmentation fault|Aborted|Bus error|Illegal instruction)
        Fatal Python error: Floating point exception
        """,
    ),
    (
        "memory",
        "user_code",
        r"""
        Python worker exited unexpectedly
        Python worker (?:process )?(?:was )?(?:killed|terminated)
        Worker died unexpectedly
        """,
    ),
    # Of the file sink: another query writes batches of these numbers to its folder.
    (
        "setting",
        "sink",
        r"""
        Race while writing batch
        [Mm]ultiple streaming queries are (?:concurrently )?using \S*_spark_metadata
        """,
    ),
    (
        "setting",
        "checkpoint",
        r"""
        Multiple streaming jobs detected
        [Cc]oncurrent update to the (?:commit )?log
        another (?:query with same id|run [^\n]{0,80}) is already active
        Cannot start query with id
        already active
        [Mm]ultiple streaming queries are (?:concurrently )?using
        Expected e\.g\. \{"topicA"[^\n]{0,80} got \{"(?:logOffset|sourceVersion)"
        There are \[\d+\] sources in the checkpoint
        offset log [^\n]{0,40}sources
        checkpointLocation must be specified
        Cannot create a streaming checkpoint in
        recover from checkpoint location
        checkpoint [^\n]{0,60}different
        different [^\n]{0,60}checkpoint
        This query does not support recovering from checkpoint
        """,
    ),
    (
        "setting",
        "",
        r"""
        [Tt]ransaction timeout is larger
        INVALID_TRANSACTION_TIMEOUT
        you must specify all TopicPartitions
        Please disable these account features
        Expected e\.g\. \{"topicA"
        (?:^|null |Bad Request )\(Service: (?:Amazon )?S3[;,] Status Code: 400
        """,
    ),
    (
        "schema",
        "state",
        r"""
        Provided (?:key |value )?schema does(?:n't| not) match[^\n]{0,40}(?:existing )?state
        state schema
        (?:[Nn]umber|types?) of fields in (?:the )?(?:key|value) schema
        UnsafeRow (?:for |format )
        schema for existing state
        [Ii]nvalid schema for state
        """,
    ),
    (
        "gone",
        "state",
        r"""
        Error reading (?:delta|snapshot) file [^\n]{0,300}does not exist
        Error reading streaming state file[^\n]{0,300}does not exist
        file does not exist[^\n]{0,60}state
        state/\d+/\d+/[\w.-]*(?:delta|snapshot|zip|changelog) does not exist
        """,
    ),
    (
        "corrupt",
        "state",
        r"""
        Error reading (?:delta|snapshot) file
        [Ss]st file size mismatch
        state store [^\n]{0,40}corrupt
        checksum [^\n]{0,40}state
        (?:key|value) size cannot be
        """,
    ),
    (
        "refused",
        "state",
        r"""
        could not be acquired by
        was not released by
        """,
    ),
    (
        "corrupt",
        "checkpoint",
        r"""
        Incomplete log file
        [Mm]alformed log file
        Log file was malformed
        Failed to read log file
        failed to read (?:correct )?log version
        UnsupportedLogVersion
        Offsets? (?:committed )?out of order
        maximum supported log version
        (?:Stream )?metadata [^\n]{0,40}(?:corrupt|malformed)
        Error reading stream metadata
        Invalid offset log
        offset log [^\n]{0,40}corrupt
        """,
    ),
    (
        "gone",
        "checkpoint",
        r"""
        [Uu]nable to find batch
        batch \d+ doesn't exist
        (?:compacted|compact) (?:log )?file[^\n]{0,80}(?:missing|doesn't exist)
        doesn't exist when compacting batch
        [Cc]heckpoint (?:location|path|dir\w*) (?:doesn't|does not) exist
        Checkpoint [Dd]irectory [^\n]{0,200}does not exist
        log file for batch \d+
        committed metadata from previous batch
        """,
    ),
    ("gone", "machine", r"Failed to get broadcast_\d"),
    (
        "unreachable",
        "",
        r"requested resource is no longer available at the server",  # Cosmos DB: a partition moved
    ),
    (
        "gone",
        "source",
        r"""
        [sS]ome data may have been (?:lost|missed)
        may have been aged out
        Cannot fetch records in
        partitions? [^\n]{0,200}(?:have|has) been deleted
        are gone\.
        offset was changed from
        OffsetOutOfRange
        [Oo]ffsets? (?:is |are )?out of range
        out of range (?:for|with no)
        failOnDataLoss
        was vacuumed
        could not be found in the table history
        (?:earliest|Earliest) (?:available )?(?:sequence|offset|version)
        Delta table \S{1,80} was found, but expected
        potential data loss
        stream is deleted and recreated
        snapshot was expired
        [Ss]napshot [^\n]{0,40}(?:expired|not found|removed)
        is earlier than the earliest
        sequence ?number [^\n]{0,120}(?:less|lower|older|earlier|greater|behind|expired)
        sequence ?number [^\n]{0,120}not (?:found|available|valid)
        is less than the (?:start|lowest|earliest|requested|current|beginning)
        requested (?:seqNo|sequence|offset)[^\n]{0,80}(?:earliest|less|expired|older)
        supplied (?:offset|sequence number) '?[^\n]{0,80}(?:invalid|not found|last)
        no longer (?:available|exists|retained)
        resume (?:token|point)[^\n]{0,80}(?:not found|no longer)
        resume of change stream was not possible
        oplog
        did not come from this stream
        [Ss]hard [^\n]{0,120}(?:does not exist|not found|closed)
        [sS]eqNo:? \d+ is less than
        [sS]eqNo \d+ does not match
        [Cc]annot find snapshot
        not an ancestor of
        has been (?:compacted|truncated|purged|aged out)
        [Dd]etected a (?:data )?(?:delete|removed file)
        topic [^\n]{0,80}(?:was|been) (?:deleted|recreated|re-created)
        lastest offset
        log truncation
        _change_data
        change (?:data|files?) [^\n]{0,40}(?:not (?:found|recorded)|missing)
        Start(?:ing)? offset [^\n]{0,60}(?:behind|after|greater)
        """,
    ),
    (
        "schema",
        "source",
        r"""
        [Ss]chema of the source table
        [Dd]etected (?:incompatible )?schema change
        Detected a data update
        ignoreChanges
        skipChangeCommits
        Unable to infer schema
        [Ss]chema registry[^\n]{0,40}(?:incompatible|not found)
        [Ss]chema being registered is incompatible
        Parquet column cannot be converted
        unknown field
        new fields? (?:was|were)? ?(?:detected|encountered)
        UnknownFieldException
        Encountered unknown field
        """,
    ),
    (
        "throttled",
        "sink",
        r"Could not write all entries \[\d+/\d+\] \(maybe|maybe ES was overloaded",
    ),
    (
        "refused",
        "",
        r"""
        (?:[mM]essage|[rR]ow|[rR]equest|[rR]ecord) (?:is |was )?larger than
        --read-only option
        No lease on
        [Tt]imed? ?out [^\n]{0,40}waiting for (?:a |the )?lock\b
        Heartbeat for instant [^\n]{0,80} has expired
        """,
    ),
    (
        "bug",
        "",
        r"""
        (?:[Tt]his is|[Rr]eport|[Ff]ile) (?:a |this )?bug\b
        not safe for multi-threaded access
        should (?:never|not) happen
        [Pp]lease (?:open|file|report)[^\n]{0,20} (?:issue|bug)
        """,
    ),
    (
        "throttled",
        "",  # said of nothing else, whatever the status beside it
        r"""
        [Tt]hrottl
        [Tt]oo [Mm]any [Rr]equests
        [Rr]ate (?:limit|is large|exceeded)
        RequestRateTooLarge
        [Rr]equest rate is large
        \b[Ss]low ?[Dd]own\b
        over the account limit
        [Rr]educe your request rate
        [Tt]oo many connects\b
        running (?:txns|transactions|jobs|queries) [^\n]{0,60}limit
        """,
    ),
    (
        "denied",
        "",
        r"""
        [Aa]ccess ?[Dd]enied
        Operation not permitted
        key ?store (?:was tampered|password)
        [Pp]ermission ?[Dd]enied
        [Uu]nauthorized
        [Nn]ot [Aa]uthorized
        \b[Ff]orbidden\b
        [Mm]ust be owner of
        command denied to
        has no \w{1,40} permission
        allowed receivers per partition
        [Ss]ignature we calculated
        [Aa]ccess [Kk]ey [Ii][dD] you provided
        [Cc]lient sent AUTH
        [Pp]ermission [^\n]{0,80}denied
        [Uu]ntrusted
        not trusted
        [Ss]ignature (?:does not|doesn't) match
        could not be authenticated
        [Aa]uthenticate again
        NOAUTH
        WRONGPASS
        NOPERM
        [Aa]uthentication (?:failed|failure|is required|error|required)
        [Ff]ailed to authenticate
        [Ll]ogin failed
        [Ii]nvalid ?[Cc]redential
        [Uu]nable to load (?:AWS )?credentials
        [Cc]redentials? (?:not found|could not|expired|is expired|are invalid|were not)
        [Nn]o (?:valid |AWS )?[Cc]redentials
        [Tt]oken (?:has |is |was )?(?:been )?(?:expired|invalid|revoked|not found|not valid)
        [Ee]xpired ?[Tt]oken
        InvalidToken
        delegation[_ ]token
        HDFS_DELEGATION_TOKEN
        SASL (?:authentication|handshake)
        [Ii]nvalid (?:SASL|user ?name|password|API key|access key|client secret|signature)
        [Ii]nvalid (?:JWT|API token|access token|token)
        password authentication
        [Ii]ncorrect (?:user ?name|user|login|password)
        no pg_hba
        does not have (?:\S+ )?(?:permission|access|privilege)
        [Ii]nsufficient (?:privilege|permission|scope)
        [Nn]ot enough privileges
        PKIX path
        fatal alert: (?:bad_certificate|unsupported_certificate|certificate_)
        fatal alert: (?:unknown_ca|access_denied)
        [Nn]o subject alternative
        unable to find valid certification
        certificate (?:has )?(?:expired|verify|unknown)
        CERTIFICATE_VERIFY
        AADSTS\d
        [Cc]annot authenticate
        lacks? (?:the )?(?:permission|privilege|claim)
        claim\(?s?\)? (?:are|is) required
        KeyVault
        jaas
        JAAS
        keytab
        Kerberos
        [Gg]SS initiate
        security token included
        (?:signing|SAS) key
        is not allowed to (?:access|perform|make)
        User [^\n]{0,60}denied
        invalid_client
        invalid_grant
        TOPIC_AUTHORIZATION
        _AUTHENTICATION
        AUTHORIZATION_FAILED
        """,
    ),
    (
        "throttled",
        "",
        r"""
        max number of clients reached
        [Tt]oo many (?:clients|simultaneous queries|concurrent (?:queries|requests))
        [Ss]erver is (?:currently |too )?busy
        [Pp]rovisioned [Tt]hroughput
        [Qq]uota (?:was |has been )?exceeded
        exceed(?:ed|s)? (?:the )?(?:\S+ )?quota
        too_many_requests
        es_rejected_execution
        circuit_breaking
        OverQuota
        [Oo]verload(?:ed)?\b
        rateLimitExceeded
        TooManyRequests
        over the (?:rate|request) limit
        exceeding (?:the )?(?:rate|throughput)
        exceeds the current (?:capacity|throughput)
        [Rr]equests per (?:second|minute|hour|user)
        [Rr]equest limit [^\n]{0,60}(?:reached|exceeded)
        [Ss]ervice is (?:currently |too )?busy
        bulk queue (?:is )?full
        TOO_MANY_PARTS
        [Tt]oo many parts
        """,
    ),
    (
        "refused",
        "",
        r"""
        [Ll]ock wait timeout
        [Ll]ock (?:request )?time ?out
        [Ww]aiters for this lock
        [Cc]ancell?ing statement due to (?:user|conflict)
        (?:trial has ended|have been suspended|(?:account|warehouse|tenant) is suspended)
        [Tt]able '[^'\n]{1,80}' is full
        \bDisk Full\b
        in an error state
        already exists with
        currently a lease on
        [Vv]alidation [Ff]ailed
        """,
    ),
    (
        "unreachable",
        "",
        r"""
        [Cc]onnection (?:was |has been |is |attempt |to \S+ )?(?:\w+ )?(?:refused|reset|closed)
        [Cc]onnection (?:was |has been |is |attempt |to \S+ )?(?:\w+ )?(?:timed out|lost|aborted)
        [Cc]onnection (?:was |has been |is |attempt |to \S+ )?(?:\w+ )?(?:failed|dropped|terminated)
        [Tt]he connection is closed
        [Cc]onnection from \S+ closed
        [Cc]onnection (?:error|timeout|time-out|pool shut down)
        [Cc]onnections? could not be (?:made|established|acquired)
        [Bb]roken pipe
        Unable to execute HTTP request
        (?:is|are) (?:currently |temporarily )?(?:not accessible|inaccessible|offline|down)\b
        (?:is|are) (?:currently |temporarily )?unavailable
        [Cc]hannel (?:was |is )?shut ?down
        [Rr]etr(?:y|ies) (?:is |are |has been |have been )?(?:exhausted|exceeded)
        [Ee]xhausted (?:all )?(?:the )?retries
        [Ff]ailed after (?:\d+ )?(?:attempts|retries|tries)
        [Uu]nable to (?:reach|contact|resolve) [^\n]{0,30}(?:host|server|node|broker)
        [Uu]nable to (?:obtain|open) [^\n]{0,30}connection
        [Nn]ot enough (?:active copies|replicas)
        [Nn]ot all slots
        [Nn]o leader
        [Ll]eader (?:is )?not available
        read after eof
        [Bb]ackend [Ee]rror
        [Cc]ommunication (?:error|failure)
        [Rr]etrying [^\n]{0,20}(?:may|might|could)\b
        has a different length than the expected
        find a valid master
        [Nn]o live \w*[Ss]ervers?
        failed to respond
        received no bytes
        [Rr]egion [^\n]{0,40}(?:is missing|not online)
        Name does not resolve
        [Cc]onnection shut ?down
        please retry
        [Pp]lease try again
        [Nn]o route to host
        [Uu]nknown ?[Hh]ost
        [Nn]ame or service not known
        nodename nor servname
        getaddrinfo
        [Tt]emporary failure in name resolution
        [Cc]ould not resolve host
        [Cc]ould not (?:connect|establish|get a (?:resource|connection))
        [Cc]ould not open (?:client )?(?:transport|connection)
        [Cc]an(?:'t|not) (?:connect|get a (?:resource|connection)|establish a connection)
        [Uu]nable to connect
        (?:is|in|system is) (?:starting up|in recovery|not currently available)
        statement timeout
        Transport endpoint is not connected
        Stale file handle
        Resource temporarily unavailable
        \b(?:LOADING|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|NOREPLICAS)\b
        [Ff]ailed to (?:connect|open (?:native )?connection|resolve|establish)
        [Ff]ailed to update metadata
        Failed to get records for
        not present in metadata
        [Tt]imed? ?out waiting
        [Tt]imed? ?out (?:after|while|expired|in)
        timed out
        [Tt]imeout (?:expired|while|of|waiting|after|exceeded)
        has passed since (?:batch creation|last append)
        [Rr]ead timeout
        \b[Tt]imeout during
        statement execution time exceeded
        \bnot master\b
        [Rr]etry(?:ing)? the (?:job|request|connection|operation)
        [Cc]onnection is not available
        [Nn]o (?:available|live|alive|reachable) (?:host|node|server|broker|connection)
        no nodes? (?:left|available)
        All host\(s\) tried
        all nodes failed
        [Ss]ervice (?:is )?(?:temporarily )?[Uu]navailable
        Bad Gateway
        Gateway Time-?out
        Internal ?Server ?Error
        \b[Ii]nternal (?:server |service )?error\b
        InternalError
        [Uu]nexpected end of stream
        [Cc]hannel (?:is )?(?:closed|inactive)
        [Pp]ool (?:is )?(?:closed|exhausted)
        [Cc]ommunications link failure
        I/O error
        [Nn]etwork (?:error|is unreachable|adapter)
        No (?:more data|nodes) [^\n]{0,20}(?:read from socket|available)
        Closed Connection
        server (?:has )?(?:closed|terminated|gone away)
        [Mm]ySQL server has gone
        terminating connection
        SSL (?:handshake|peer|connection)
        fatal alert
        plaintext connection
        [Ss]ocket (?:is )?closed
        [Ss]tream (?:is )?closed
        Premature end of (?:Content|chunk)
        in state standby
        in-sync replicas
        [Rr]emote host (?:closed|terminated)
        [Nn]o response
        did not respond
        not (?:reachable|responding)
        Expiring \d+ record
        StatusCode: Gone
        replica responded
        unexpectedly closed
        [Hh]ost is down
        (?<!Context )has (?:already )?been (?:closed|shut ?down)
        bad datanode
        could only be (?:written|replicated) to
        [Aa]ll datanodes [^\n]{0,200}are bad
        [Ii]s the server running
        Database '[^'\n]{1,80}' not found
        endpoint [^\n]{0,40}unreachable
        safe ?mode
        """,
    ),
    (
        "absent",
        "",
        r"""
        (?<!\bin )(?:[tT]opic|[sS]tream|queue|subscription) [^\n]{0,80}n(?:o|')t exist
        (?<!\bin )(?:index|collection) [^\n]{0,80}n(?:o|')t exist
        (?<!\bin )(?:[tT]opic|[sS]tream|[sS]ubject) [^\n]{0,80}not (?:be )?found
        (?<!\bin )(?:queue|index|collection) [^\n]{0,80}not (?:be )?found
        subscription [^\n]{0,80}not (?:be )?found
        (?:[kK]eyspace|[dD]atabase|[tT]able|bucket) [^\n]{0,80}n(?:o|')t exist
        (?:[cC]ontainer|[eE]ntity) [^\n]{0,80}n(?:o|')t exist
        (?:keyspace|database|[tT]able|bucket|[cC]ontainer|[eE]ntity) [^\n]{0,80}not (?:be )?found
        host this topic-partition
        [rR]esource not found
        UNKNOWN_TOPIC
        NoSuchBucket
        index_not_found
        [Nn]o such (?:table|index|topic|bucket|container|database|keyspace|queue|stream)
        [Uu]nknown (?:table|database|keyspace)
        unconfigured table
        relation \"[^\"]{0,80}\" does not exist
        Invalid object name
        [Oo]bject '\S{1,120}' does not exist
        [Cc]ould not find (?:the )?(?:table|index|topic|stored procedure)
        [Nn]ot found: (?:Table|Dataset)
        """,
    ),
    (
        "gone",
        "",
        r"""
        [Nn]o such file
        [Ff]ile (?:\S+ )?(?:does not|doesn't) exist
        (?:does not|doesn't) exist any ?more
        FileNotFound
        [Ss]pecified (?:blob|path|key|file|object|resource) (?:does not|doesn't) exist
        underlying files have been updated
        [sS]huffle data lost
        [Pp]ath (?:\S+ )?does not exist: \S*/_delta_log
        [Nn]ot found: \S*\.(?:parquet|json|avro|orc)
        BlockMissing
        Could not obtain block
        [Ff]ailed to find file
        """,
    ),
    (
        "schema",
        "",
        r"""
        [Ss]chema (?:mismatch|mismatched|changed|evolution)
        mismatch(?:ed)? (?:schema|type|input)
        [Ii]ncompatible (?:schema|type|data)
        [Cc]annot (?:cast|be cast|safely cast|write (?:nullable|incompatible))
        Invalid column (?:name|type)
        (?:type|column) mismatch
        [Cc]annot find (?:column|field)
        cannot be (?:converted|resolved)
        data type mismatch
        [Ff]ailed to (?:merge|convert) (?:incompatible|fields|the)
        [Uu]nknown column
        no viable alternative
        would be truncated
        [Rr]ight truncation
        [Dd]ata truncated
        length exceeds
        [Nn]umeric (?:field |value )?overflow
        invalid input syntax for
        [Cc]onversion failed
        converting data type
        infer the SQL type
        Semantic error[^\n]{0,80}column
        [Ff]ailed to resolve (?:column|scalar)
        Cannot convert object
        (?:[vV]alue|[dD]ate|[tT]imestamp|[tT]ime) '[^'\n]{0,80}' is not recognized
        [Nn]umber of (?:columns|fields) [^\n]{0,60}(?:match|different|equal)
        [Ss]chema [^\n]{0,60}(?:does not|doesn't|do not) match
        [Uu]ndefined column
        [Nn]o such (?:column|field)
        [Cc]olumn count (?:does not|doesn't) match
        doesn't have a default value
        invalid byte sequence
        \b(?:integer|bigint|smallint|[vV]alue) out of range
        column [^\n]{0,60}(?:of type|is of type)
        [Ff]ield [^\n]{0,60}(?:not found|missing|does not exist)
        mapper_parsing
        strict_dynamic_mapping
        too (?:long|large) for (?:column|type|the field)
        value too long
        Data too long
        Incorrect \w+ value
        [Oo]ut of range value
        Arithmetic overflow error
        [Uu]nknown identifier
        is not a valid external type
        Data truncation
        [Ii]nconsistent (?:schema|datatype)
        """,
    ),
    (
        "setting",
        "",
        r"""
        Invalid value '?[^'\n]{0,80}'? for
        [Oo]ption '?[^'\n]{0,60}'? (?:must|is|has|cannot|needs)
        Option [^\n]{0,80}requirement
        [Ss]et (?:the )?(?:read |write )?option
        Data source \S+ does not support
        not supported (?:for|on|in|with|by)
        not (?:yet |currently )?supported
        does not allow (?!nulls)
        [Ii]ncorrect syntax
        (?:[Ff]unction|[Oo]perator|[Pp]rocedure)\b [^\n]{0,80}does not exist
        no unique or exclusion constraint
        key parts are missing
        \bERR (?:unknown|wrong number|syntax|[Tt]his instance)
        [Pp]ars(?:e|ing) error
        could not be instantiated
        not properly ended
        illegal characters
        [Cc]heck '\S{1,60}' option
        [Cc]heck (?:your|the) (?:configuration|settings|options)
        does not support(?! task retry)
        unsupported
        Unsupported
        Unexpected character \('<'
        [Ii]nvalid (?:input|syntax|query|configuration|pattern|option|parameter|identifier)
        [Ss]yntax ?[Ee]rror
        [Nn]o active (?:warehouse|database|schema)
        [Tt]here is no (?:procedure|function|such)
        [Ff]ailed to load (?:SSL )?(?:key|trust) ?store
        [Cc]ompilation error
        syntax to use near
        output mode
        Too many open files
        Is a directory
        Address already in use
        Cannot assign requested address
        Exec format error
        Argument list too long
        [Ff]ile name too long
        Failed to (?:construct|create new) [kK]afka
        \bset \S{1,80} ?(?:=|to) ?'?(?:true|false)
        \bset \S{1,80}=(?:true|false)
        Failed to find data source
        No suitable driver
        ClassNotFound
        class [^\n]{0,80}not found
        No (?:Abstract)?FileSystem for scheme
        Wrong FS:
        No resolvable bootstrap
        [Ii]nvalid url
        key not found: \w+(?:\.\w+)+
        must be (?:specified|set|provided|a positive|defined|one of|configured|enabled)
        (?:is|was|are) not (?:set|configured|enabled|specified|defined)
        (?:is|was|are) not (?:provided|initialized|registered)
        [Mm]issing (?:required|mandatory)
        is required
        already exists
        [Pp]ath does not exist
        (?:Table or view|Column|column|view) [^\n]{0,80}(?:not found|does not exist)
        cannot resolve
        UNRESOLVED
        wrong version
        incompatible (?:version|with)
        requires (?:Spark|Java|Scala|version|at least|a )
        maximum (?:allowed|value|size)\b
        max\.(?:request|message)
        larger than the max
        please (?:set|increase|specify|configure|enable|use|provide|upgrade)
        Please (?:set|increase|specify|configure|enable|provide|upgrade)
        [Cc]onsider (?:increasing|setting)
        [Tt]oo many connections
        remaining connection slots
        Unrecognized (?:option|config)
        [Uu]nknown (?:option|config|property)
        Cannot modify the value
        Could not initialize class
        in unnamed module
        cannot access class
        writer version
        reader version
        different (?:number of|version)
        is not a Delta table
        """,
    ),
    (
        "corrupt",
        "",
        r"""
        [Cc]orrupt
        Mismatch in unique ID
        is not a Parquet file
        [Nn]ot a (?:valid )?(?:[pP]arquet|[aA]vro|[oO][rR][cC]|gzip|zip)
        [Cc]hecksum
        magic number
        Invalid sync
        [Cc]ould not read (?:footer|page)
        [Cc]an ?not read value at
        [Cc]annot read all data
        [Ee]nd-of-input
        [Mm]alformed
        [Uu]nexpected end of (?:file|input|JSON|ZLIB)
        invalid (?:block|header|magic)
        [Nn]ot in GZIP
        [Tt]runcated
        failed integrity
        could not be recovered while [Rr]econstructing
        CRC
        Unexpected EOF
        Premature EOF
        [Pp]remature end
        """,
    ),
    (
        "refused",
        "",
        r"""
        (?:[dD]uplicate|E11000)[^\n]{0,20} (?:key|entry)
        violates
        [Vv]iolation
        constraint
        [Cc]onflict
        [Dd]eadlock
        [Cc]an(?:'t|not) acquire [^\n]{0,40}[lL]ock
        [Ll]ock (?:could not be|cannot be|not) (?:acquired|obtained)
        [Uu]nable to acquire (?:a |the )?lock
        too many filtered rows
        DATA_QUALITY_ERROR
        previous (?:transactional|idempotent)[^\n]{0,40}failed
        is not (?:the )?same as the current
        could not serialize
        Cannot insert the value NULL
        Column '[^'\n]{1,80}' cannot be null
        [Ii]nvalid null value
        transaction is aborted
        row a second time
        could not obtain lock
        Cannot insert explicit value
        already an object named
        [Pp]re-?conditions? [^\n]{0,20}(?:did not|failed|not met)
        transaction log [^\n]{0,80}full
        Device or resource busy
        File exists
        Directory not empty
        OOM command not allowed
        \b(?:WRONGTYPE|EXECABORT|BUSYKEY)\b
        [Ff]enced
        FENCED
        [Rr]ejected
        [Cc]oncurrent (?:update|modification|append|write|transaction)
        [Cc]ommit denied
        too (?:large|big)
        exceeds? (?:the )?(?:max|limit)
        [Bb]ad ?[Rr]equest
        [Rr]ead-only
        READONLY
        not leader
        MISCONF
        CROSSSLOT
        MOVED
        rename (?:from )?[^\n]{0,300}failed
        Failed to (?:rename|create|mkdirs|delete)
        Mkdirs failed
        Destination exists
        [Nn]ot a directory
        write (?:was )?(?:failed|refused)
        """,
    ),
    (
        "killed",
        "driver",
        r"""
        SparkContext (?:was|has been) (?:shut ?down|stopped)
        stopped SparkContext
        because SparkContext was
        Spark context stopped while
        [Ss]tage cancelled
        [Jj]ob \d+ cancelled
        cancelled (?:part of|because|as part)
        was cancelled
        Master removed our application
        [Ss]hutting down
        Shutdown in progress
        SIGTERM
        [Ss]park session (?:is|was|has been) (?:closed|stopped)
        Answer from Java side is empty
        [oO]btain(?:ing)? a new communication channel
        notebook (?:was )?detached
        """,
    ),
    (
        "bug",
        "",
        r"""
        assertion failed
        assumption failed
        [Uu]nknown magic byte
        [Dd]ivision by zero
        not serializable
        null value
        NullPointer
        cannot be null
        \bis null\b
        [Ii]ndex \d+ out of
        For input string
        """,
    ),
)


def _lines(words: str) -> re.Pattern[str]:
    return re.compile("|".join(line.strip() for line in words.strip().splitlines()))


_WORD_RES: Final = [(kind, where, _lines(words)) for kind, where, words in WORDS]
#: From here on the words are such as any service uses: its codes are asked first.
_GENERAL: Final = next(n for n, (kind, _, _) in enumerate(_WORD_RES) if kind == "denied")

#: What ends an executor, not a query's code. ``FetchFailed`` is told where a shuffle's block was.
_LOST: Final = _lines(
    r"""
    [Hh]eartbeat timed out
    (?:[Ll]ost|Removed) (?:executor|worker)
    (?:[Ee]xecutor|[Ww]orker|[Ss]lave) lost
    Remote RPC client disassociated
    from a bad node
    exited with code
    decommission
    preempt
    [Pp]od (?:was )?(?:deleted|evicted)
    Command exited
    Unable to create executor
    """
)
#: What knows more than its cause: which query wrote first, not how the storage noticed; how a
#: worker of Python ended, not how its socket did; that no credential was found, not why the last
#: of several places where one was sought had none. Of a single place the reason is what happened.
_KNOWS_MORE: Final = re.compile(
    r"[Mm]ultiple streaming queries are (?:concurrently )?using |Python worker exited unexpectedly"
    r"|No AWS Credentials provided by \w+ \w"
)
#: The system's reason, at the end of a line behind a path; of a socket nothing else stands there.
_SYSTEM: Final = re.compile(
    r"(?<= \()[A-Z][a-z][\w/ -]{2,60}(?=\)$)|^Too many open files", re.MULTILINE
)
_PROCESS: Final = re.compile(r"[eE]xecutor|[wW]orker|[sS]lave|[cC]ontainer|\b[pP]od\b")
_SPARK_TIMES_OUT: Final = _lines(
    r"""
    Futures timed out after
    spark\.rpc\.\w*[Tt]imeout
    Cannot receive any reply from
    askTimeout
    """
)
#: What is not installed or does not fit the rest, whatever the class of the exception.
_INSTALLED: Final = _lines(
    r"""
    Cannot run program
    SerializationProxy
    unread block data
    failed to read class descriptor
    cannot assign instance of
    cannot be cast to (?:class )?\S{0,200}shaded
    in (?:unnamed module of|different) loader
    Could not initialize class
    cannot access class
    local class incompatible
    [Ss]cala module [\d.]+ requires
    class file major version
    has been compiled by a more recent version
    """
)


#: What an exception of any class met, by the library that it was thrown from.
FRAMES: Final = (
    ("setting", r"java\.security\.KeyStore|sun\.security\.(?:provider\.JavaKeyStore|pkcs12)"),
    (
        "unreachable",
        r"""
        java\.net\.(?!URLClassLoader|UR[IL]\b)
        sun\.net\.
        sun\.nio\.ch\.(?:Socket|Net\b)
        javax\.net\.
        sun\.security\.ssl
        (?:\w+\.)*(?:io\.netty\.(?:channel|handler)|okhttp3|okio|reactor\.netty)\.
        (?:\w+\.)*org\.apache\.(?:http|hc)\.
        org\.apache\.hadoop\.(?:ipc|net)\.
        org\.apache\.thrift\.transport
        org\.apache\.spark\.network\.(?:client|util)
        """,
    ),
    (
        "corrupt",
        r"""
        java\.util\.zip
        org\.xerial\.snappy
        net\.jpountz
        com\.github\.luben
        org\.apache\.avro\.file
        org\.apache\.(?:parquet|orc)\.(?:hadoop|format|impl)
        org\.apache\.hadoop\.io\.compress
        """,
    ),
)
_FRAME_RES: Final = [(kind, _lines(patterns)) for kind, patterns in FRAMES]
#: What clients call the methods that open a connection, at the end of a frame.
_CONNECTS: Final = re.compile(
    r"\.(?:re)?connect(?:OneTryOnly|ToHost|Internal|To)?$|[cC]onnection(?:Impl)?\.<init>$"
    r"|\.(?:open|create|get|acquire|establish|initialize)(?:New)?(?:Connection|Session|Channel)\w*$"
    r"|[hH]andshake\w*$"
)
_INNERMOST: Final = 3  # frames: below them lies what was to be done over the connection
_PLATFORM: Final = re.compile(r"(?:java|javax|jdk|sun|scala|kotlin)\.")
_WIRES: Final = re.compile(
    r"[sS]ocket|[cC]hannel|\.net(?:ty|work)?\.|\.http|\.ssl\.|spark\.api\.|\.python\.|\.ipc\.|[cC]onnection|[cC]lient"
    r"|StreamingForeachBatchHelper"
)


def wrongly_installed(message: str) -> bool:
    """Whether a message tells of a program or jar that is missing or does not fit the others."""
    return bool(_INSTALLED.search(message))


def kind_of_class(simple: str) -> str:
    """What a class made for one thing says, empty for any other."""
    if simple in _SIMPLE:
        return _SIMPLE[simple]
    if simple in _SHARED:
        return ""
    return failure_names.kind_of_published(simple) or ""


def kind_of_name(simple: str) -> str:
    """What the parts of a class's name say, empty where they say nothing."""
    if failure_names.kind_of_published(simple) == "":
        return ""
    for kind, parts in NAME_PARTS:
        if parts.search(simple):
            return kind
    return ""


def kind_of_frames(simple: str, frames: list[str]) -> str:
    """What the frames say that an exception was thrown from, where neither class nor words do."""
    for frame in frames:
        for kind, pattern in _FRAME_RES:
            if pattern.match(frame):
                return kind
        if not _PLATFORM.match(frame):
            break
    read = any(not _PLATFORM.match(frame) for frame in frames)
    if simple == "EOFException" and read and not any(_WIRES.search(frame) for frame in frames):
        return "corrupt"  # the end of a file, not of a connection
    return ""


def while_connecting(frames: list[str]) -> bool:
    """Whether the innermost frames are those of a client that connects."""
    return any(_CONNECTS.search(frame) for frame in frames[:_INNERMOST])


def kind_of_shared(simple: str) -> str:
    """What a class that many things share mostly is, empty for any other."""
    return _SHARED.get(simple, "")


def kind_of_words(message: str) -> tuple[str, str, int] | None:
    """The kind that a message tells, where it is by that alone, and the place in the message.

    By words made for one thing, by codes and statuses, then by words that several causes share.
    """
    code = None
    for number, (kind, where, pattern) in enumerate(_WORD_RES):
        if number == _GENERAL:
            code = failure_names.kind_of_code(message)
            if code is not None:
                return code[0], "", code[1]
        found = pattern.search(message)
        if found:
            return kind, where, found.start()
    told = failure_names.kind_of_status(message) or failure_names.kind_of_state(message)
    return None if told is None else (told[0], "", told[1])


def kind_of_system(message: str) -> tuple[str, str, int] | None:
    """The same by the system's reason alone, None where it gives none or says that a file is gone.

    Java has one class for all that keeps it from opening a file, and one for a socket.
    """
    found = _SYSTEM.search(message)
    told = kind_of_words(found[0]) if found else None
    if not found or not told or told[0] == "gone":
        return None
    return told[0], told[1], found.start()


def knows_more(message: str) -> bool:
    """Whether a link's own words decide, whatever it was caused by."""
    return bool(_KNOWS_MORE.search(message))


def lost_executor(name: str, message: str) -> bool:
    """Whether a link tells of an executor that went."""
    return name == "ExecutorLostFailure" or bool(_PROCESS.search(message) and _LOST.search(message))


def spark_timed_out(message: str) -> bool:
    """Whether one part of Spark did not answer another in time."""
    return bool(_SPARK_TIMES_OUT.search(message))
