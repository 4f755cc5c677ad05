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
        ShuffleManagerNotInitialized""",
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
        QuotaByStorageTypeExceeded FSLimit ClusterStorageCapacityExceeded DiskChecker
        SyncFailed""",
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
    # -- throttled -------------------------------------------------------------------------------
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
        "ServiceFailure CommitStateUnknown HoodieRemote HoodieDependentSystemUnavailable",
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
        "ShutdownSignal MissedHeartbeat UnknownChannel ConsumerCancelled UnexpectedFrame",
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
    (
        "gone",
        "AWS",
        "NoSuchKey NoSuchUpload NoSuchVersion ExpiredIterator ExpiredNextToken TrimmedDataAccess",
    ),
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
    # -- corrupt ---------------------------------------------------------------------------------
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
        SchedulerInvalidResourceRequest SchedulerInvalidResoureRequest AWSRedirect
        AWSBadRequest""",
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
        AWSUnsupportedFeature""",
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

#: SQL's classes of SQLSTATE, the first two letters, as databases tell them (not Spark's own).
SQL_CLASSES: Final[dict[str, str]] = {
    "08": "unreachable",
    "0A": "setting",
    "22": "schema",
    "23": "refused",
    "25": "refused",
    "26": "setting",
    "28": "denied",
    "40": "refused",
    "42": "setting",
    "44": "refused",
    "53": "throttled",
    "54": "refused",
    "55": "refused",
    "57": "unreachable",
    "58": "unreachable",
    "XX": "corrupt",
}

#: Oracle's messages by their numbers, inclusive.
ORACLE: Final[tuple[tuple[int, int, str], ...]] = (
    (1, 1, "refused"),  # unique constraint
    (18, 20, "throttled"),  # sessions, processes
    (54, 60, "refused"),  # locked, deadlock
    (904, 904, "schema"),
    (942, 942, "absent"),
    (1000, 1000, "setting"),  # open cursors
    (1005, 1017, "denied"),
    (1031, 1031, "denied"),
    (1033, 1034, "unreachable"),
    (1089, 1092, "unreachable"),
    (1400, 1401, "refused"),
    (1438, 1438, "schema"),
    (1552, 1555, "refused"),
    (1650, 1655, "disk"),
    (1722, 1722, "schema"),
    (2289, 2293, "refused"),
    (3113, 3114, "unreachable"),
    (3135, 3136, "unreachable"),
    (4020, 4036, "refused"),
    (12150, 12699, "unreachable"),  # its network
    (12899, 12899, "schema"),
    (17002, 17002, "unreachable"),
    (17008, 17008, "unreachable"),
    (17410, 17410, "unreachable"),
    (28000, 28009, "denied"),
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
    r"\b(?:error \d{1,6} \((\w{4,60})\)|([a-z]+(?:_[a-z]+){1,6})_exception\b)"
)
_GRPC: Final = re.compile(
    r"\b(CANCELLED|DEADLINE_EXCEEDED|NOT_FOUND|ALREADY_EXISTS|PERMISSION_DENIED|UNAUTHENTICATED"
    r"|RESOURCE_EXHAUSTED|FAILED_PRECONDITION|ABORTED|OUT_OF_RANGE|UNIMPLEMENTED|UNAVAILABLE"
    r"|DATA_LOSS|INVALID_ARGUMENT|INTERNAL)(?=:|,|\s)"
)
_STATUS: Final = re.compile(
    r"(?:HTTP(?:/\d(?:\.\d)?)?|[cC]ode|[sS]tatus|[eE]rror|status_?[cC]ode|[rR]esponse)\W{0,12}"
    r"([1-5]\d\d)\b(?![.\d])"
)
_REASON: Final = re.compile(
    r"\b([345]\d\d) (?:Bad|Unauthorized|Forbidden|Not |Conflict|Gone|Precondition|Too |Internal"
    r"|Service|Gateway|Client Error|Server Error|Request|Moved|Method|Unprocessable|Payload)"
)
_SQLSTATE: Final = re.compile(r"SQL ?[sS]tate\W{1,3}([0-9A-Z]{2})[0-9A-Z]{3}\b")
_ORACLE: Final = re.compile(r"\bORA-(\d{5})\b")


def kind_of_published(name: str) -> str | None:
    """What a class or a code means; empty by decision, None where no list has it."""
    return _TABLE.get(_plain(name))


def kind_of_code(message: str) -> tuple[str, int] | None:
    """What the code or status means that a message tells, and where in the message it stands."""
    for pattern in (_CODE, _NAMED, _GRPC):
        for found in pattern.finditer(message):
            kind = kind_of_published(found[1] or found[2])
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
    state = _SQLSTATE.search(message)
    told = SQL_CLASSES.get(state[1]) if state else None
    return (told, state.start()) if state and told else None


def kind_of_status(message: str) -> tuple[str, int, str] | None:
    """What a status of HTTP means that a message tells, where it stands, and the status."""
    for pattern in (_STATUS, _REASON):
        for found in pattern.finditer(message):
            if found[1] in STATUSES:
                return STATUSES[found[1]], found.start(), found[1]
    return None
