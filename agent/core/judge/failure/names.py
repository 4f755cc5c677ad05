"""What the names mean that platforms and services publish for their failures.

Exception classes, error codes and statuses come from published lists: the JDK's API, Kafka's
``org.apache.kafka.common.errors``, Hadoop's file systems (S3A included), Spark, Delta, Python's
built-ins, the clients of Cassandra, Couchbase, Cosmos DB, HBase, Hudi, Iceberg, MongoDB, Neo4j,
Netty, Pulsar, RabbitMQ and Redis; the error references of AWS (common errors, S3, Kinesis,
DynamoDB, Glue, KMS, SQS), Azure Storage and Event Hubs, BigQuery, Elasticsearch and MongoDB; gRPC's
status codes, the IANA registry of HTTP statuses, SQL's classes of SQLSTATE and Oracle's error
messages. ``tests/faults/test_names.py`` reads the jars that are installed and fails for a class
without an entry.

A name is known with and without ``Exception`` or ``Error`` at its end and however its words are
joined, so one entry is a class of Java, an error code and a status of gRPC alike: ``NotFound``,
``NotFoundException``, ``NOT_FOUND``. What one publisher means and another does not stands as it is
meant where streaming queries meet it. A kind is one of ``failure_kinds``; ``""`` is a name that
says nothing by decision: it wraps, or is thrown for anything.
"""

from __future__ import annotations

import re
from typing import Final

#: (kind, publisher, names).
NAMES: Final[tuple[tuple[str, str, str], ...]] = (
    # -- nothing, by decision --------------------------------------------------------------------
    (
        "",
        "Iceberg and Hudi",
        """Hoodie HoodieIO HoodieIndex HoodieMetadata HoodieCompact HoodieLogCompact
        HoodieCatalog HoodieMetaSync HoodieUpsert HoodieInsert HoodieCommit HoodieValidation
        RuntimeIO REST BulkDeletionFailure HoodieSecondaryIndex""",
    ),
    ("", "Pulsar", "PulsarClient PulsarAdmin SupplierWithException"),
    ("", "Azure", "Azure AmqpException EventHub HttpResponse"),
    ("", "Cassandra", "Driver DriverExecution Coordinator QueryExecution"),
    ("", "Redis", "Jedis JedisCluster JedisClient"),
    ("", "Neo4j", "ClientException DatabaseException"),
    (
        "",
        "MongoDB",
        """Mongo MongoClient MongoServer MongoQuery MongoInternal WriteConcern
        MongoWriteConcern MongoWriteConcernWithResponse""",
    ),
    (
        "",
        "HBase",
        """HBaseServer HBaseSnapshot Coprocessor RemoteWithExtras ReplicationException
        RegionException ConsumerWithException ExportSnapshot RestoreSnapshot
        SnapshotCreation MergeRegion""",
    ),
    (
        "",
        "Java",
        """RuntimeException IOError UncheckedIO IllegalState ExecutionException Completion
        InvocationTarget UndeclaredThrowable PrivilegedAction ReflectiveOperation
        SQLNonTransient GeneralSecurity Provider Naming PartialResult VirtualMachine Unknown
        FileSystem DirectoryIterator SyncProvider SyncFactory Serial SQLWarning BackingStore
        ObjectStream Referral LdapReferral CannotProceed Link LinkLoop MalformedLink Destroy
        DestroyFailed ExemptionMechanism Decapsulate""",
    ),
    (
        "",
        "Kafka",
        """Api ApplicationRecoverable Partition Record Fatal FatalExit ExitCode
        OperationNotAttempted""",
    ),
    (
        "",
        "Hadoop",
        """Exit Halt Ipc RpcServer RpcClient FatalRpcServer Multi MultipleIO WrappedIO PathIO
        PathOperation Serialized Yarn YarnRuntime WebApp InvalidStateTransition FS
        InvalidStateTransiton UnresolvedLink UnresolvedPath NativeIO UnexpectedServer
        ByteBufferAllocationStacktrace LeakDetectorHeapByteBufferPool LeakedByteBuffer
        ReleasingUnallocatedByteBuffer TimelinePut TimelineWrite UpdateContainer
        MissingEvents BlockPinning PartialGroupName LogAggregationDFS""",
    ),
    (
        "",
        "Spark",
        """SparkException SparkRuntime SparkSQL SparkIO SparkIllegalState TaskCompletionListener
        TaskNotSerializable Python PythonWorker Py4JJava StreamingQuery OriginalTryStackTrace
        Abort BarrierJobRunWithDynamicAllocation SubmitRestMissingField SubmitRestProtocol
        StreamingPythonRunnerInitialization StreamingPythonRunnerInitializationCommunication
        ShuffleManagerNotInitialized ContinuousTaskRetry""",
    ),
    (
        "",
        "Delta",
        """DeltaAnalysis DeltaIO DeltaIllegalState DeltaParse DeltaRuntime DeltaSpark
        IllegalStateTransition DeltaUnsupportedOperation DeltaIllegalArgument""",
    ),
    ("", "Python", "OSError EnvironmentError BaseExceptionGroup ExceptionGroup ReferenceError"),
    # -- memory ----------------------------------------------------------------------------------
    ("memory", "Spark", "TooLargePage OutOfSpace SparkOutOfMemory"),
    # -- disk ------------------------------------------------------------------------------------
    (
        "disk",
        "Hadoop",
        """Disk DiskError DiskOutOfSpace DSQuotaExceeded NSQuotaExceeded
        QuotaByStorageTypeExceeded FSLimit MaxDirectoryItemsExceeded DiskChecker
        ClusterStorageCapacityExceeded SyncFailed""",
    ),
    # -- denied: a credential, a permission, a certificate ---------------------------------------
    ("denied", "Neo4j", "TokenExpired UntrustedServer"),
    (
        "denied",
        "BigQuery and GCS",
        """accessDenied billingNotEnabled blocked invalidUser proxyAuthenticationRequired
        accountDisabled insufficientPermissions authError""",
    ),
    (
        "denied",
        "Pulsar",
        "GettingAuthenticationData UnsupportedAuthentication Crypto NotAuthorized",
    ),
    ("denied", "MongoDB", "AuthenticationFailed ReauthenticationRequired"),
    (
        "denied",
        "Java",
        """Security KeyStore UnrecoverableKey UnrecoverableEntry InvalidKey Key KeyManagement
        InvalidKeySpec Signature CertPathBuilder CertificateExpired CertificateNotYetValid
        CertificateRevoked CertificateParsing CertificateEncoding CertStore CRL FailedLogin
        Account AccountExpired AccountLocked RefreshFailed Sasl SSLPeerUnverified SSLKey
        BadPadding AEADBadTag InvalidAlgorithmParameter NamingSecurity IllegalBlockSize""",
    ),
    (
        "denied",
        "Kafka",
        """UnacceptableCredential DelegationTokenDisabled DelegationTokenOwnerMismatch Kerberos
        InvalidPrincipalType JwtRetriever JwtValidator""",
    ),
    (
        "denied",
        "Hadoop",
        """Acl InvalidBlockToken InvalidEncryptionKey SnapshotAccessControl Signer NoAuthWithAWS
        NoAwsCredentials CredentialInitialization TokenAccessProvider""",
    ),
    (
        "denied",
        "AWS",
        """AllAccessDisabled AccountProblem AuthFailure ExpiredToken IncompleteSignature
        InvalidAccessKeyId InvalidClientTokenId InvalidSecurity InvalidSignature
        MissingAuthenticationToken NotSignedUp OptInRequired RequestExpired
        RequestTimeTooSkewed RequestInTheFuture SignatureDoesNotMatch UnrecognizedClient
        InvalidPayer InvalidToken TokenRefreshRequired KMSAccessDenied KMSOptInRequired
        KMSDisabled GlueEncryption""",
    ),
    (
        "denied",
        "Azure",
        """AuthorizationFailure AuthorizationFailed AuthorizationPermissionMismatch
        AuthorizationProtocolMismatch InsufficientAccountPermissions
        InvalidAuthenticationInfo NoAuthenticationInformation AccountIsDisabled
        KeyVaultKeyNotFound amqp:unauthorized-access""",
    ),
    ("denied", "HTTP and gRPC", "Unauthenticated Unauthorized Forbidden PermissionDenied"),
    (
        "denied",
        "ClickHouse",
        """AUTHENTICATION_FAILED ACCESS_DENIED REQUIRED_PASSWORD WRONG_PASSWORD UNKNOWN_USER
        IP_ADDRESS_NOT_ALLOWED NOT_ENOUGH_PRIVILEGES DATABASE_ACCESS_DENIED ACCESS_STORAGE_READONLY
        OPENSSL_ERROR""",
    ),
    # -- throttled -------------------------------------------------------------------------------
    (
        "throttled",
        "ClickHouse",
        """TOO_MANY_PARTS TOO_MANY_SIMULTANEOUS_QUERIES MEMORY_LIMIT_EXCEEDED
        """,
    ),
    ("throttled", "MongoDB", "ExceededMemoryLimit"),
    (
        "throttled",
        "HTTP and gRPC",
        """FlowControl FlowControlRuntime MaxOutstandingElementCountReached
        MaxOutstandingRequestBytesReached""",
    ),
    ("throttled", "RabbitMQ", "WorkPoolFull"),
    ("throttled", "AWS", "OverLimit"),
    ("throttled", "HBase", "RegionTooBusy ServerTooBusy CallQueueTooBig OutOfMemoryQuota"),
    ("throttled", "Cassandra", "Overloaded"),
    (
        "throttled",
        "Pulsar",
        "ProducerQueueIsFull MemoryBufferIsFull ReachMaxPendingOps TooManyRequests",
    ),
    (
        "throttled",
        "BigQuery and GCS",
        """quotaExceeded jobRateLimitExceeded userRateLimitExceeded resourcesExceeded
        billingTierLimitExceeded dailyLimitExceeded""",
    ),
    (
        "throttled",
        "AWS",
        """BandwidthLimitExceeded EC2Throttled LimitExceeded PriorRequestNotComplete
        ProvisionedThroughputExceeded RequestLimitExceeded RequestThrottled SlowDown
        Throttled Throttling KMSThrottling AWSServiceThrottled ResourceNumberLimitExceeded""",
    ),
    (
        "throttled",
        "Azure",
        """ServerBusy IngressOverAccountLimit EgressIsOverAccountLimit
        OperationsOverAccountLimit TpsOverAccountLimit com.microsoft:server-busy
        amqp:resource-limit-exceeded""",
    ),
    ("throttled", "Hadoop", "CallQueueOverflow AsyncCallLimitExceeded"),
    ("throttled", "Kafka", "ThrottlingQuotaExceeded ShareSessionLimitReached BufferExhausted"),
    ("throttled", "HTTP and gRPC", "ResourceExhausted RateLimitExceeded"),
    ("throttled", "Elasticsearch", "es_rejected_execution circuit_breaking"),
    # -- unreachable: no answer, or an error of the service's own --------------------------------
    (
        "unreachable",
        "ClickHouse",
        """NETWORK_ERROR SOCKET_TIMEOUT TIMEOUT_EXCEEDED ALL_CONNECTION_TRIES_FAILED DNS_ERROR
        NO_ZOOKEEPER KEEPER_EXCEPTION ATTEMPT_TO_READ_AFTER_EOF CANNOT_READ_FROM_SOCKET
        CANNOT_WRITE_TO_SOCKET ALL_REPLICAS_ARE_STALE TOO_FEW_LIVE_REPLICAS NO_REPLICA_HAS_PART
        UNKNOWN_STATUS_OF_INSERT ALL_REPLICAS_LOST LOGICAL_ERROR
        TABLE_IS_BEING_RESTARTED DATABASE_REPLICATION_FAILED""",
    ),
    ("unreachable", "HTTP and gRPC", "Poll ServerStreamingAttempt"),
    (
        "unreachable",
        "Pulsar",
        """TopicMigration MessageAcknowledge TransactionCoordinatorClient
        TransactionBufferClient CoordinatorClientState""",
    ),
    (
        "unreachable",
        "Netty",
        """StacklessClosedChannel ExtendedClosedChannel AnnotatedNoRouteToHost AnnotatedConnect
        AnnotatedSocket PrematureChannelClosure SslClosedEngine NotSslRecord NativeSsl
        StacklessSSLHandshake ChannelException EventLoop ChannelOutputShutdown""",
    ),
    (
        "unreachable",
        "Couchbase",
        """ServiceNotAvailable TemporaryFailure DurabilityAmbiguous DurabilityLevelNotAvailable
        InternalServerFailure AlreadyShutdown DurableWriteReCommitInProgress
        SeedNodeOutdated""",
    ),
    ("unreachable", "Azure", "ServiceRequest ServiceResponse HttpRequest UnexpectedLength"),
    (
        "unreachable",
        "Cosmos DB",
        """Gone PartitionIsMigrating PartitionKeyRangeGone PartitionKeyRangeIsSplitting
        InvalidPartition FeedRangeGone ChannelAcquisition Transport UnhealthyChannel
        RntbdContext""",
    ),
    (
        "unreachable",
        "Cassandra",
        """CASWriteUnknown CDCWriteFailure UnfitClient ClusterNameMismatch UnexpectedResponse""",
    ),
    (
        "unreachable",
        "Redis",
        """JedisAskData JedisMovedData JedisRedirection JedisBusy JedisBroadcast""",
    ),
    ("unreachable", "Neo4j", "FatalDiscovery TransactionTerminated"),
    (
        "unreachable",
        "MongoDB",
        """MongoNotPrimary MongoNodeIsRecovering Dns DnsWithResponseCode WouldBlock
        TlsChannelFlowControl""",
    ),
    (
        "unreachable",
        "HBase",
        """NotServingRegion RegionMoved RegionOpening WrongRegion MasterStopped
        ServerNotRunningYet PleaseHold PleaseRestartMaster FailedServer PreemptiveFastFail
        CallDropped StoppedRpcClient NotAllMetaRegionsOnline MasterRegistryFetch
        DroppedSnapshot ScannerReset OutOfOrderScannerNext UnknownScanner LeaseException
        FailedSyncBeforeLogClose FailedLogClose RegionServerRunning UnknownRegion""",
    ),
    (
        "unreachable",
        "Iceberg and Hudi",
        "ServiceFailure HoodieRemote HoodieDependentSystemUnavailable",
    ),
    (
        "unreachable",
        "BigQuery and GCS",
        "backendError jobBackendError jobInternalError tableUnavailable timeout",
    ),
    (
        "unreachable",
        "Cassandra",
        """ReadFailure WriteFailure ReadTimeout WriteTimeout IsBootstrapping Bootstrapping
        Truncate Server QueryConsistency ConnectionInit NodeUnavailable Heartbeat
        ClosedConnection""",
    ),
    (
        "unreachable",
        "Pulsar",
        "BrokerMetadata BrokerPersistence ServerSideError NotConnected ConnectionFailed",
    ),
    (
        "unreachable",
        "Elasticsearch",
        """unavailable_shards master_not_discovered process_cluster_event_timeout
        node_disconnected node_not_connected receive_timeout_transport
        no_shard_available_action connect_transport node_closed""",
    ),
    (
        "unreachable",
        "MongoDB",
        """MaxTimeMSExpired ShutdownInProgress PrimarySteppedDown NotWritablePrimary
        NotPrimaryNoSecondaryOk NotPrimaryOrSecondary InterruptedAtShutdown
        InterruptedDueToReplStateChange NetworkTimeout HostUnreachable HostNotFound
        ExceededTimeLimit WriteConcernFailed WriteConcernTimeout UnsatisfiableWriteConcern
        FailedToSatisfyReadPreference""",
    ),
    (
        "unreachable",
        "Java",
        """PortUnreachable Protocol HttpRetry WebSocketHandshake SSL SSLProtocol ClosedSelector
        ShutdownChannelGroup AsynchronousClose InsufficientResources TimeLimitExceeded
        ConnectionPendingException NotYetConnected""",
    ),
    (
        "unreachable",
        "Kafka",
        """Retriable RefreshRetriable InvalidMetadata StaleMetadata AuthorizerNotReady
        CoordinatorLoadInProgress CoordinatorNotAvailable Disconnect ElectionNotNeeded
        EligibleLeadersNotAvailable FencedLeaderEpoch FetchSessionIdNotFound
        FetchSessionTopicId InconsistentTopicId InvalidFetchSessionEpoch
        InvalidShareSessionEpoch KafkaStorage LeaderNotAvailable ListenerNotFound
        NotController NotCoordinator OffsetNotAvailable PreferredLeaderNotAvailable
        ReplicaNotAvailable ShareSessionNotFound UnknownLeaderEpoch UnstableOffsetCommit
        UnknownServer NewLeaderElected NoAvailableBrokers ControllerMoved StaleBrokerEpoch
        BrokerIdNotRegistered RebootstrapRequired UnknownControllerId CorrelationIdMismatch
        InvalidReceive NoBatchedFindCoordinators NoBatchedOffsetFetchRequest
        ReassignmentInProgress IneligibleReplica UnjoinedGroup ConsumerRebalanceFailed
        ConsumerTimeout NoBrokersForPartition UnavailableProducer""",
    ),
    (
        "unreachable",
        "Hadoop",
        """SafeMode Standby RetryStartFile ObserverRetryOnActive NotReplicatedYet ClosedIO
        ApplicationMasterNotRegistered NMNotYetReady FTP AWSClientIO AWSNoResponse
        AWSStatus500 AWSApiCallTimeout CannotObtainBlockLength""",
    ),
    (
        "unreachable",
        "RabbitMQ",
        "MissedHeartbeat UnknownChannel ConsumerCancelled UnexpectedFrame",
    ),
    ("unreachable", "Spark", "RpcEnvStopped BlockSavedOnDecommissionedBlockManager ExecutorDead"),
    ("unreachable", "Delta", "CommitCoordinatorGetCommitsFailed"),
    ("unreachable", "Python", "BlockingIOError"),
    (
        "unreachable",
        "AWS",
        """InternalFailure InternalError InternalServer InternalService RequestAborted
        RequestTimeout OperationTimeout RequestHandlerTimeout""",
    ),
    # These last for minutes: the reader was slow, and what it reads is still there.
    ("unreachable", "AWS", "ExpiredIterator ExpiredNextToken"),
    (
        "unreachable",
        "Azure",
        """OperationTimedOut com.microsoft:timeout amqp:connection:forced amqp:internal-error
        amqp:link:detach-forced proton:io""",
    ),
    (
        "unreachable",
        "HTTP and gRPC",
        "Unavailable DeadlineExceeded BadGateway ServiceUnavailable GatewayTimeout",
    ),
    ("unreachable", "Neo4j", "Transient SessionExpired ConnectionReadTimeout Discovery"),
    # -- gone ------------------------------------------------------------------------------------
    ("gone", "AWS", "QueueDeletedRecently"),
    ("gone", "MongoDB", "MongoChangeStream MongoCursorNotFound"),
    ("gone", "HBase", "UnknownSnapshot SnapshotTTLExpired"),
    ("gone", "Pulsar", "TopicTerminated"),
    (
        "gone",
        "MongoDB",
        "ChangeStreamHistoryLost ChangeStreamFatal CappedPositionLost CursorNotFound",
    ),
    (
        "gone",
        "Kafka",
        "OffsetOutOfRange OffsetMovedToTieredStorage PositionOutOfRange LogTruncation",
    ),
    ("gone", "Hadoop", "RemoteFileChanged BlockMissing"),
    ("gone", "Delta", "TemporallyUnstableInput TimestampEarlierThanCommitRetention"),
    ("gone", "AWS", "NoSuchKey NoSuchUpload NoSuchVersion TrimmedDataAccess"),
    ("gone", "Azure", "BlobNotFound PathNotFound SourcePathNotFound SnapshotNotFound"),
    # -- absent: a name that is not known --------------------------------------------------------
    ("absent", "Cassandra", "InvalidKeyspace InvalidTable"),
    ("absent", "MongoDB", "NamespaceNotFound"),
    (
        "absent",
        "Kafka",
        """GroupIdNotFound LogDirNotFound UnknownTopicId UnknownTopicOrPartition
        UnknownSubscriptionId""",
    ),
    (
        "absent",
        "services",
        """NotFound NoSuchBucket NoSuchEntity EntityNotFound ResourceNotFound KMSNotFound
        UnknownStore ContainerNotFound FilesystemNotFound ContainerBeingDeleted
        index_not_found amqp:not-found""",
    ),
    ("absent", "ClickHouse", "UNKNOWN_TABLE UNKNOWN_DATABASE"),
    # -- corrupt ---------------------------------------------------------------------------------
    (
        "corrupt",
        "ClickHouse",
        """CANNOT_READ_ALL_DATA CHECKSUM_DOESNT_MATCH CORRUPTED_DATA CANNOT_DECOMPRESS
        SIZE_OF_FILE_DOESNT_MATCH""",
    ),
    ("corrupt", "Cassandra", "CrcMismatch FrameDecoding"),
    (
        "corrupt",
        "Java",
        """OptionalData InvalidObject WriteAborted UTFDataFormat DataFormat ZipError
        StreamCorrupted""",
    ),
    (
        "corrupt",
        "services",
        "DataLoss Md5Mismatch BadDigest XAmzContentSHA256Mismatch InvalidDecoding",
    ),
    # -- refused ---------------------------------------------------------------------------------
    (
        "refused",
        "ClickHouse",
        """TABLE_IS_READ_ONLY READONLY VIOLATED_CONSTRAINT TOO_LARGE_ARRAY_SIZE TOO_MANY_PARTITIONS
        TOO_BIG_AST QUERY_WAS_CANCELLED TABLE_ALREADY_EXISTS TOO_MANY_ROWS TOO_MANY_BYTES
        DEADLOCK_AVOIDED QUERY_IS_TOO_LARGE""",
    ),
    ("refused", "Elasticsearch", "index_closed IndexClosed ClusterBlock"),
    ("refused", "RabbitMQ", "UnroutableRpcRequest"),
    (
        "refused",
        "AWS",
        """BatchRequestTooLong InvalidMessageContents MessageNotInflight ReceiptHandleIsInvalid
        BatchEntryIdsNotDistinct QueueNameExists TableInUse BackupInUse PurgeQueueInProgress
        BucketAlreadyOwnedByYou""",
    ),
    ("refused", "Iceberg and Hudi", "HoodieHeartbeat"),
    (
        "refused",
        "Pulsar",
        """ConsumerAssign InvalidMessage InvalidTxnStatus TransactionHasOperationFailed""",
    ),
    (
        "refused",
        "Couchbase",
        """CasMismatch DocumentExists DocumentAlreadyInTransaction DurableWriteInProgress
        DurabilityImpossible TooBigObject DmlFailure DocumentUnretrievable
        TransactionOperationFailed""",
    ),
    ("refused", "Azure", "ResourceExists ResourceModified"),
    ("refused", "Cassandra", "FrameTooLong QueryValidation FunctionFailure"),
    (
        "refused",
        "HBase",
        """RequestTooBig RowTooBig WrongRowIO FailedSanityCheck TableNotEnabled
        TableNotDisabled TablePartiallyOpen TableExists NamespaceExist ClockOutOfSync""",
    ),
    (
        "refused",
        "Iceberg and Hudi",
        """CommitFailed UnprocessableEntity DuplicateWAPCommit CherrypickAncestorCommit
        HoodieLock HoodieDuplicateKey HoodieWriteConflict NamespaceNotEmpty""",
    ),
    (
        "refused",
        "Pulsar",
        "ConsumerBusy ProducerBusy ProducerBlockedQuotaExceeded NotAllowed TransactionConflict",
    ),
    (
        "refused",
        "Elasticsearch",
        "cluster_block version_conflict_engine action_request_validation resource_already_exists",
    ),
    (
        "refused",
        "MongoDB",
        """DuplicateKey WriteConflict DocumentValidationFailure BSONObjectTooLarge LockTimeout
        NoSuchTransaction TransactionTooOld BulkWrite""",
    ),
    (
        "refused",
        "Java",
        """SQLTransactionRollback DirectoryNotEmpty ReadOnlyFileSystem OverlappingFileLock
        NameAlreadyBound ContextNotEmpty AttributeInUse AttributeModification
        SizeLimitExceeded SyncProviderConflict""",
    ),
    (
        "refused",
        "Kafka",
        """FencedInstanceId FencedMemberEpoch FencedStateEpoch GroupMaxSizeReached GroupNotEmpty
        GroupSubscribedToTopic IllegalGeneration InvalidCommitOffsetSize InvalidPidMapping
        InvalidProducerEpoch InvalidTxnState MemberIdRequired OffsetMetadataTooLarge
        RebalanceInProgress StaleMemberEpoch TelemetryTooLarge TransactionAbortable
        TransactionAborted TransactionalIdNotFound TransactionCoordinatorFenced
        UnknownMemberId UnknownProducerId UnreleasedInstanceId StreamsTopologyFenced
        InvalidRecordState InvalidUpdateVersion Unretryable MessageSizeTooLarge""",
    ),
    (
        "refused",
        "Hadoop",
        """AlreadyBeingCreated PathExists PathIsNotEmptyDirectory PathIsDirectory
        PathIsNotDirectory NotDirectory RecoveryInProgress InvalidResourceRequest
        SchedulerInvalidResourceRequest SchedulerInvalidResoureRequest AWSRedirect""",
    ),
    ("refused", "Spark", "TaskOutputFileAlreadyExist"),
    (
        "refused",
        "Delta",
        """InvariantViolation InnerInvariantViolation DeltaInvariantViolation
        MergeIntoMaterializeSource""",
    ),
    ("refused", "Python", "FileExistsError"),
    (
        "refused",
        "AWS",
        """ConditionalCheckFailed EntityTooLarge InvalidObjectState InvalidRange
        OperationAborted ItemCollectionSizeLimitExceeded DuplicateItem
        IdempotentParameterMismatch BucketAlreadyExists ResourceInUse TransactionCanceled
        TransactionInProgress VersionMismatch RequestEntityTooLarge KMSInvalidState""",
    ),
    (
        "refused",
        "Azure",
        """ConditionNotMet TargetConditionNotMet SourceConditionNotMet LeaseAlreadyPresent
        LeaseIdMissing LeaseLost LeaseNotPresentWithBlobOperation BlobAlreadyExists
        PathAlreadyExists ContainerAlreadyExists BlobImmutableDueToPolicy PathConflict
        InvalidSourceOrDestinationResourceType InvalidFlushPosition amqp:link:stolen
        amqp:link:message-size-exceeded amqp:precondition-failed""",
    ),
    (
        "refused",
        "HTTP and gRPC",
        """Aborted BadRequest FailedPrecondition AlreadyExists OutOfRange Conflict
        PreconditionFailed InvalidArgument""",
    ),
    # -- setting ---------------------------------------------------------------------------------
    (
        "setting",
        "ClickHouse",
        """SYNTAX_ERROR UNKNOWN_FUNCTION UNKNOWN_SETTING NOT_IMPLEMENTED UNKNOWN_STORAGE
        UNKNOWN_FORMAT ILLEGAL_AGGREGATION NOT_AN_AGGREGATE SUPPORT_IS_DISABLED
        UNSUPPORTED_METHOD BAD_ARGUMENTS NUMBER_OF_ARGUMENTS_DOESNT_MATCH UNKNOWN_CODEC
        ENGINE_REQUIRED CLUSTER_DOESNT_EXIST""",
    ),
    (
        "setting",
        "Elasticsearch",
        "parsing illegal_argument invalid_index_name search_parse query_shard",
    ),
    (
        "refused",
        "Neo4j",
        """ConstraintValidationFailed ConstraintViolation LockAcquisitionTimeout LockClientStopped
        ForbiddenOnReadOnlyDatabase Outdated""",
    ),
    ("throttled", "Neo4j", "MemoryPoolOutOfMemory MaximumTransactionLimitReached"),
    ("denied", "Neo4j", "CredentialsExpired AuthProviderFailed AuthorizationExpired"),
    ("setting", "Neo4j", "ProcedureNotFound ProcedureCallFailed ParameterMissing Semantic"),
    ("corrupt", "HTTP and gRPC", "DataLoss"),
    ("refused", "Hadoop", "PathComponentTooLong"),
    ("setting", "RabbitMQ", "ProtocolVersionMismatch"),
    ("setting", "Iceberg and Hudi", "HoodieTimeTravel InvalidHoodiePath"),
    (
        "setting",
        "Couchbase",
        """FeatureNotAvailable PlanningFailure PreparedStatementFailure ParsingFailure
        CompilationFailure InvalidProperty""",
    ),
    ("setting", "Redis", "JedisNoScript JedisValidation InvalidURI"),
    ("setting", "MongoDB", "MongoIncompatibleDriver MongoConfiguration"),
    (
        "setting",
        "HBase",
        """FallbackDisallowed CellScannerButNoCodec UnknownProtocol FileSystemVersion
        WrongVersion IncompatibleFilter InvalidFamilyOperation TableInfoMissing""",
    ),
    ("setting", "BigQuery and GCS", "notImplemented invalidQuery invalidParameter"),
    ("setting", "Pulsar", "FeatureNotSupported InvalidServiceURL InvalidTopicName"),
    ("setting", "Cassandra", "UnsupportedProtocolVersion"),
    ("setting", "MongoDB", "CommandNotFound InvalidOptions InvalidNamespace"),
    (
        "setting",
        "Java",
        """ClassFormat ClassCircularity BootstrapMethod IllegalAccess InaccessibleObject
        Instantiation TypeNotPresent EnumConstantNotPresent AnnotationFormat
        IncompleteAnnotation MissingResource FindException Resolution InvalidModuleDescriptor
        LayerInstantiation NoInitialContext InvalidPath IllegalCharsetName WrongMethodType
        LambdaConversion IllegalClassFormat UnmodifiableClass UnmodifiableModule
        IllegalCaller InvalidClass GenericSignatureFormat MalformedParameterizedType
        ProviderMismatch UnknownService Bind Jar InvalidPropertiesFormat
        InvalidPreferencesFormat InvalidName NotContext NoSuchProvider InvalidParameterSpec""",
    ),
    (
        "setting",
        "Kafka",
        """DelegationTokenNotFound Validate InconsistentClusterId InconsistentGroupProtocol
        InconsistentVoterSet InvalidConfiguration InvalidFetchSize InvalidPartitions
        InvalidRegistration InvalidRegularExpression InvalidReplicaAssignment
        InvalidReplicationFactor InvalidRequiredAcks InvalidSessionTimeout InvalidVoterKey
        MismatchedEndpointType NoReassignmentInProgress SecurityDisabled
        TopicDeletionDisabled TopicExists FeatureUpdateFailed StreamsInvalidTopology
        StreamsInvalidTopologyEpoch ExitRefresherThreadDueToIllegalState""",
    ),
    (
        "setting",
        "Hadoop",
        """BadAclFormat InvalidPathHandle NotInMountpoint NoECPolicySet UnknownCipherSuite
        UnknownCommand UnknownCryptoProtocolVersion UnknownOption IllegalNumberOfArguments
        NotEnoughArguments InvalidTopology InvalidAuxService InvalidApplicationMasterRequest
        InvalidContainer InvalidContainerRelease InvalidContainerRequest
        InvalidLabelResourceRequest InvalidResourceBlacklistRequest ApplicationIdNotProvided
        ResourceProfilesNotEnabled YARNFeatureNotEnabled NoVersionAttribute
        AWSUnsupportedFeature AWSBadRequest""",
    ),
    (
        "setting",
        "Delta",
        """DeltaTableFeature InvalidProtocolVersion ProtocolDowngrade
        DeltaTablePropertyValidationFailed""",
    ),
    ("setting", "Python", "IsADirectoryError NotADirectoryError"),
    (
        "setting",
        "AWS",
        """PermanentRedirect TemporaryRedirect MethodNotAllowed IllegalLocationConstraint
        InvalidBucketName AuthorizationHeaderMalformed UnknownOperation MissingParameter
        AwsRegionMissing""",
    ),
    ("setting", "HTTP and gRPC", "Unimplemented MethodNotImplemented"),
    # -- schema ----------------------------------------------------------------------------------
    (
        "schema",
        "ClickHouse",
        """NO_SUCH_COLUMN_IN_TABLE UNKNOWN_IDENTIFIER TYPE_MISMATCH CANNOT_CONVERT_TYPE
        CANNOT_PARSE_TEXT CANNOT_PARSE_NUMBER CANNOT_PARSE_DATE CANNOT_PARSE_DATETIME
        CANNOT_PARSE_INPUT_ASSERTION_FAILED CANNOT_PARSE_QUOTED_STRING INCORRECT_DATA
        CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN NUMBER_OF_COLUMNS_DOESNT_MATCH
        VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE ARGUMENT_OUT_OF_BOUND TOO_LARGE_STRING_SIZE
        DUPLICATE_COLUMN THERE_IS_NO_COLUMN ILLEGAL_COLUMN ILLEGAL_TYPE_OF_ARGUMENT
        DECIMAL_OVERFLOW NOT_FOUND_COLUMN_IN_BLOCK""",
    ),
    ("schema", "Elasticsearch", "mapper_parsing strict_dynamic_mapping document_parsing"),
    ("schema", "MongoDB", "TypeMismatch BSONInvalidOperation"),
    ("schema", "Cassandra", "CodecNotFound InvalidType"),
    ("schema", "Delta", "ColumnMapping"),
    ("schema", "Spark", "MetadataMismatch UnknownFieldParse"),
    # -- bug -------------------------------------------------------------------------------------
    (
        "bug",
        "Iceberg and Hudi",
        """HoodieRecordMissing HoodieDebeziumAvroPayload HoodieJsonToAvroConversion""",
    ),
    ("bug", "Netty", "IllegalReferenceCount Decoder Encoder TooLongFrame Codec"),
    ("bug", "Azure", "Decode MalformedValue MissingRequiredAnnotation"),
    ("bug", "Neo4j", "ResultConsumed TransactionNesting Uncoercible Unstorable"),
    ("bug", "Iceberg and Hudi", "HoodieKey HoodieSerialization"),
    (
        "bug",
        "Java",
        """BufferOverflow BufferUnderflow ReadOnlyBuffer InvalidMark EmptyStack InputMismatch
        CharConversion CharacterCoding CoderMalfunction UnmappableCharacter ZoneRules
        NotActive FormatFlagsConversionMismatch FormatterClosed IllegalFormat
        IllegalFormatArgumentIndex IllegalFormatCodePoint IllegalFormatConversion
        IllegalFormatFlags IllegalFormatPrecision IllegalFormatWidth MissingFormatArgument
        MissingFormatWidth UnknownFormatConversion UnknownFormatFlags IllformedLocale
        IllegalMonitorState IllegalThreadState StringConcat MalformedParameters BrokenBarrier
        AcceptPending AlreadyBound IllegalBlockingMode IllegalChannelGroup IllegalSelector
        NonReadableChannel NonWritableChannel NotYetBound ReadPending WritePending
        ClosedDirectoryStream ClosedFileSystem ClosedWatchService NotLink FileSystemLoop
        Digest ShortBuffer InvalidAttributeIdentifier InvalidAttributeValue InvalidAttributes
        InvalidSearchControls InvalidSearchFilter SQLClientInfo""",
    ),
    ("bug", "Kafka", "PrincipalDeserialization RecordDeserialization InvalidOffset"),
    (
        "bug",
        "Spark",
        """DeltaArithmetic DeltaIndexOutOfBounds SparkArrayIndexOutOfBounds AlreadyCalled
        BadParameter DescriptorValidation InvalidEscapeSequence InvalidWireType
        UninitializedMessage UnpairedSurrogate ProtobufRuntimeVersion""",
    ),
    (
        "bug",
        "Python",
        """BufferError LookupError SystemError StopAsyncIteration TabError UnicodeError
        UnicodeTranslateError""",
    ),
    # -- killed ----------------------------------------------------------------------------------
    ("killed", "Java", "FileLockInterruption"),
    ("killed", "Kafka", "Wakeup"),
    ("killed", "Hadoop", "CommandInterrupt"),
    ("killed", "Spark", "KilledByTaskReaper BlockerFailed"),
    ("killed", "Python", "GeneratorExit ProcessLookupError ChildProcessError"),
    ("killed", "HTTP and gRPC", "Cancelled Canceled"),
)

#: HTTP's statuses (IANA): what a service means by them.
STATUSES: Final[dict[str, str]] = {
    **dict.fromkeys(("401", "403", "407", "511"), "denied"),
    **dict.fromkeys(("429", "509", "529"), "throttled"),
    **dict.fromkeys(("408", "500", "502", "503", "504", "507", "508"), "unreachable"),
    "404": "absent",
    "410": "gone",
    **dict.fromkeys(
        ("301", "302", "307", "308", "405", "406", "415", "426", "501", "505"), "setting"
    ),
    **dict.fromkeys(("400", "402", "409", "411", "412", "413", "414", "416", "417"), "refused"),
    **dict.fromkeys(("421", "422", "423", "424", "425", "428", "431", "451"), "refused"),
}

#: Statuses that services give for most anything: believed where no words tell more.
VAGUE: Final = frozenset(("400", "404", "500"))
#: A status that no list has is its class's first (RFC 9110, 15), and as vague.
_CLASSES: Final = {"4": "400", "5": "500"}

#: SQL's classes of SQLSTATE, the first two letters, as databases tell them (not Spark's own).
SQL_CLASSES: Final[dict[str, str]] = {
    "08": "unreachable",
    "0A": "setting",
    "22": "schema",
    "23": "refused",
    "25": "refused",
    "21": "schema",
    "26": "setting",
    "28": "denied",
    "38": "bug",
    "39": "bug",
    "3D": "absent",
    "3F": "absent",
    "40": "refused",
    "42": "setting",
    "44": "refused",
    "51": "unreachable",
    "53": "throttled",
    "54": "refused",
    "55": "refused",
    "57": "unreachable",
    "58": "unreachable",
    "XX": "corrupt",
}

#: States that are not of their class's kind: SQL's, PostgreSQL's and the call-level interface's.
SQL_STATES: Final[dict[str, str]] = {
    **dict.fromkeys(("42501", "0L000", "0P000"), "denied"),
    **dict.fromkeys(("42P01", "42S02", "3D000", "3F000", "42704"), "absent"),
    **dict.fromkeys(("42703", "42S22", "42804", "42846", "21S01", "42701"), "schema"),
    **dict.fromkeys(("42P07", "42S01", "42710"), "refused"),
    **dict.fromkeys(("HYT00", "HYT01", "08S01"), "unreachable"),
    **dict.fromkeys(("IM002", "IM003", "HYC00"), "setting"),
}

#: Oracle's messages by their numbers, inclusive.
ORACLE: Final[tuple[tuple[int, int, str], ...]] = (
    (1, 1, "refused"),  # unique constraint
    (18, 20, "throttled"),  # sessions, processes
    (28, 28, "unreachable"),  # the session was killed
    (51, 60, "refused"),  # locked, deadlock
    (257, 257, "unreachable"),  # the archiver is stuck
    (600, 603, "unreachable"),  # errors of its own
    (904, 904, "schema"),
    (913, 913, "schema"),  # too many values
    (932, 932, "schema"),  # inconsistent data types
    (942, 942, "absent"),
    (947, 947, "schema"),  # not enough values
    (955, 955, "refused"),  # the name is taken
    (900, 999, "setting"),  # statements that do not parse
    (1000, 1000, "setting"),  # open cursors
    (1005, 1017, "denied"),
    (1031, 1031, "denied"),
    (1033, 1034, "unreachable"),
    (1035, 1045, "denied"),
    (1089, 1092, "unreachable"),
    (1401, 1401, "schema"),  # too large for its column
    (1400, 1407, "refused"),  # null
    (1438, 1438, "schema"),
    (1552, 1555, "refused"),
    (1650, 1655, "disk"),
    (1722, 1722, "schema"),
    (1740, 1799, "setting"),  # statements, again
    (1830, 1899, "schema"),  # dates
    (2289, 2289, "absent"),
    (2290, 2293, "refused"),
    (3113, 3114, "unreachable"),
    (3135, 3136, "unreachable"),
    (4020, 4029, "refused"),
    (4030, 4036, "throttled"),  # the database's own memory
    (4043, 4043, "absent"),
    (6502, 6502, "schema"),
    (6550, 6550, "setting"),
    (8177, 8177, "refused"),
    (12150, 12699, "unreachable"),  # its network
    (12899, 12899, "schema"),
    (14400, 14402, "refused"),  # no partition for it
    (17002, 17002, "unreachable"),
    (17003, 17004, "bug"),
    (17006, 17006, "schema"),
    (17008, 17008, "unreachable"),
    (17059, 17059, "schema"),
    (17410, 17410, "unreachable"),
    (20000, 20999, "refused"),  # raised by the database's own code
    (28000, 28009, "denied"),
)

#: MongoDB's codes by their numbers, where a message tells no name.
MONGO: Final[dict[str, str]] = {
    **dict.fromkeys(("11", "13", "18", "31", "8000"), "denied"),
    **dict.fromkeys(("6", "7", "24", "50", "64", "89", "91", "133", "189", "262"), "unreachable"),
    **dict.fromkeys(("10107", "11600", "11602", "13435", "13436"), "unreachable"),
    **dict.fromkeys(("26", "73"), "absent"),
    **dict.fromkeys(("43", "136", "175", "280", "286"), "gone"),
    **dict.fromkeys(("2", "9", "14", "59", "72", "20"), "setting"),
    **dict.fromkeys(("48", "61", "66", "112", "121", "251", "10334", "11000", "11001"), "refused"),
    **dict.fromkeys(("146", "16500"), "throttled"),
}

#: ClickHouse's codes by their numbers, where a message tells no name.
CLICKHOUSE: Final[dict[str, str]] = {
    **dict.fromkeys(("192", "193", "194", "195", "291", "497", "516"), "denied"),
    **dict.fromkeys(("201", "202", "241", "252", "439"), "throttled"),
    **dict.fromkeys(("3", "32", "159", "198", "209", "210", "225", "279"), "unreachable"),
    **dict.fromkeys(("285", "319", "369", "999", "1000"), "unreachable"),
    **dict.fromkeys(("60", "81"), "absent"),
    **dict.fromkeys(("33", "40", "246", "271"), "corrupt"),
    **dict.fromkeys(("57", "164", "242", "394", "469"), "refused"),
    **dict.fromkeys(("36", "42", "46", "48", "56", "62", "73", "115", "119", "344"), "setting"),
    **dict.fromkeys(("6", "8", "10", "15", "16", "20", "26", "27", "38", "41", "43"), "schema"),
    **dict.fromkeys(("44", "47", "53", "69", "70", "72", "117", "131", "321", "349"), "schema"),
}

#: AMQP 0-9-1's reply codes, as the clients of RabbitMQ tell them.
AMQP: Final[dict[str, str]] = {
    **dict.fromkeys(("311", "312", "313", "405", "406"), "refused"),
    **dict.fromkeys(("320", "541"), "unreachable"),
    **dict.fromkeys(("402", "503", "540"), "setting"),
    **dict.fromkeys(("403", "530"), "denied"),
    **dict.fromkeys(("501", "502", "504", "505"), "bug"),
    "404": "absent",
    "506": "throttled",
}

#: What names a number: the pattern, and the table that has it.
_NUMBERS: Final[tuple[tuple[re.Pattern[str], dict[str, str]], ...]] = (
    (re.compile(r"(?:[cC]ommand|[qQ]uery) failed with error(?: code)? (\d{1,5})\b"), MONGO),
    (re.compile(r"(?:\bCode: ?|\[)(\d{1,4})(?:\.|\]) ?(?:DB::)+Exception"), CLICKHOUSE),
    (re.compile(r"reply-code=(\d{3})\b"), AMQP),
    (re.compile(r"ClickHouse exception, code: (\d{1,4})\b"), CLICKHOUSE),
)


def _plain(name: str) -> str:
    """A name without its ending and with its words joined."""
    return re.sub(r"[_\W]", "", re.sub(r"(?:_?(?:Exception|Error|exception))+$", "", name)).lower()


def _table() -> dict[str, str]:
    found: dict[str, str] = {}
    for kind, _, names in NAMES:
        for name in names.split():
            found.setdefault(_plain(name) or name.lower(), kind)
    return found


_TABLE: Final = _table()

#: Where a service tells its error code in a message.
_CODE: Final = re.compile(
    r"(?:[eE]rror ?_?[cC]ode|\bcode|<Code>|[cC]ondition|[sS]tatus(?: ?[cC]ode)?"
    r"|\"(?:type|reason)\")"
    r"[\"']?[:=>\s]{1,3}[\"']?([A-Za-z][\w:.-]{3,60})"
)
_NAMED: Final = re.compile(
    r"\b(?:error \d{1,6} \((\w{4,60})\)|([a-z]+(?:_[a-z]+){0,6})_exception\b"
    r"|([A-Z]\w{3,60})Exception\[)|\(([A-Z]+(?:_[A-Z]+){1,8})\)"
    r"|An error occurred \((\w{4,60})\) when calling|\bNeo\.\w+\.\w+\.(\w{4,60})"
    r"|\b(?:HEAD|GET|PUT|PATCH|POST|DELETE), https?://[^\s,]{1,600}, ([A-Z]\w{3,60})"
)
_GRPC: Final = re.compile(
    r"\b(CANCELLED|DEADLINE_EXCEEDED|NOT_FOUND|ALREADY_EXISTS|PERMISSION_DENIED|UNAUTHENTICATED"
    r"|RESOURCE_EXHAUSTED|FAILED_PRECONDITION|ABORTED|OUT_OF_RANGE|UNIMPLEMENTED|UNAVAILABLE"
    r"|DATA_LOSS|INVALID_ARGUMENT|INTERNAL)(?=:|,|\s|$)"
)
_STATUS: Final = re.compile(
    r"(?:HTTP(?:/\d(?:\.\d)?)?|[cC]ode|[sS]tatus|[eE]rror|status_?[cC]ode|[rR]esponse)\W{0,12}"
    r"([1-5]\d\d)(?:\d\d)?\b(?!\.?\d)"  # a schema registry's codes are a status and two digits
)
_ANSWERED: Final = re.compile(r"[rR]esponse code [^\n:]{1,30}: ?([1-5]\d\d)\b")
#: As the drivers of Azure's storage end what a service said.
_METHOD: Final = re.compile(r"\b([1-5]\d\d), (?:HEAD|GET|PUT|PATCH|POST|DELETE)\b")
_UNLISTED: Final = re.compile(
    r"(?:HTTP(?:/\d(?:\.\d)?)?|[sS]tatus(?:_?[cC]ode)?)\W{0,6}(?:[sS]tatus )?(?:[cC]ode\W{1,3})?"
    r"([45])\d\d\b(?![.\d])"
)
_REASON: Final = re.compile(
    r"\b([345]\d\d) (?:Bad|Unauthorized|Forbidden|Not |Conflict|Gone|Precondition|Too |Internal"
    r"|Service|Gateway|Client Error|Server Error|Request|Moved|Method|Unprocessable|Payload)"
)
#: Not as Spark ends what it says itself: that is of Spark's own conditions, not of a database.
_SQLSTATE: Final = re.compile(
    r"(?:(?!SQLSTATE: \w{5}(?:$| SQLSTATE: ))[sS][qQ][lL] ?(?:[sS]tate|STATE)\W{1,3}"
    r"|\b\d{6} \(|\[(?=\w{5}\] ?[\[(]))([0-9A-Z]{5})\b",
    re.MULTILINE,
)
_ORACLE: Final = re.compile(r"\bORA-(\d{5})\b")


def kind_of_published(name: str) -> str | None:
    """What a class or a code means; empty by decision, None where no list has it."""
    return _TABLE.get(_plain(name))


def kind_of_code(message: str) -> tuple[str, int] | None:
    """What the code or status means that a message tells, and where in the message it stands."""
    for pattern in (_CODE, _NAMED, _GRPC):
        for found in pattern.finditer(message):
            kind = kind_of_published(next(name for name in found.groups() if name))
            if kind:
                return kind, found.start()
    status = kind_of_status(message)
    if status is not None and status[2] not in VAGUE:
        return status[:2]
    number = _ORACLE.search(message)
    if number:
        for first, last, kind in ORACLE:
            if first <= int(number[1]) <= last:
                return kind, number.start()
    for pattern, table in _NUMBERS:
        number = pattern.search(message)
        if number and number[1] in table:
            return table[number[1]], number.start()
    return kind_of_state(message, vague=False)


def kind_of_state(message: str, *, vague: bool = True) -> tuple[str, int] | None:
    """What the SQLSTATE means that a message tells; those of class 42 only where vague ones do."""
    state = _SQLSTATE.search(message)
    if state is None or (state[1][:2] == "42" and state[1] != "42501" and not vague):
        return None
    told = SQL_STATES.get(state[1]) or SQL_CLASSES.get(state[1][:2])
    return (told, state.start()) if told else None


def kind_of_status(message: str) -> tuple[str, int, str] | None:
    """What a status of HTTP means that a message tells, where it stands, and the status."""
    for pattern in (_STATUS, _REASON, _METHOD, _ANSWERED):
        for found in pattern.finditer(message):
            if found[1] in STATUSES:
                return STATUSES[found[1]], found.start(), found[1]
    unlisted = _UNLISTED.search(message)
    if unlisted:
        status = _CLASSES[unlisted[1]]
        return STATUSES[status], unlisted.start(), status
    return None
