"""Requests as a driver sends them, with progress as Spark writes it for a stateful query."""

from __future__ import annotations

import json
import uuid
from hashlib import sha256
from typing import Any

from spark_listener.wire import format_time

BASE_TIME = 1_795_251_302.0
TRIGGER = "ProcessingTimeTrigger(500)"


def query_ids(number: int) -> tuple[str, str]:
    return (
        str(uuid.UUID(int=0xA000_0000 + number)),
        str(uuid.UUID(int=0xB000_0000 + number)),
    )


def progress(
    sequence: int,
    *,
    query: int = 0,
    name: str | None = None,
    batch_id: int | None = None,
    rows: int = 10_000,
    seconds: float = 2.5,
    backlog: int = 50_000,
    limit: int | None = 10_000,
    time: float | None = None,
) -> dict[str, Any]:
    query_id, run_id = query_ids(query)
    moment = BASE_TIME + sequence if time is None else time
    milliseconds = int(seconds * 1000)
    rocksdb = dict.fromkeys(
        (
            "rocksdbBytesCopied",
            "rocksdbCommitCheckpointLatency",
            "rocksdbCommitCompactLatency",
            "rocksdbCommitFileSyncLatencyMs",
            "rocksdbCommitFlushLatency",
            "rocksdbCommitPauseLatency",
            "rocksdbFilesCopied",
            "rocksdbFilesReused",
            "rocksdbGetCount",
            "rocksdbGetLatency",
            "rocksdbPinnedBlocksMemoryUsage",
            "rocksdbPutCount",
            "rocksdbPutLatency",
            "rocksdbReadBlockCacheHitCount",
            "rocksdbReadBlockCacheMissCount",
            "rocksdbSstFileSize",
            "rocksdbTotalBytesRead",
            "rocksdbTotalBytesWritten",
            "rocksdbWriterStallLatencyMs",
            "rocksdbZipFileBytesUncompressed",
        ),
        17,
    )
    body = {
        "id": query_id,
        "runId": run_id,
        "name": name if name is not None else f"query-{query}",
        "timestamp": format_time(moment - seconds),
        "batchId": sequence if batch_id is None else batch_id,
        "batchDuration": milliseconds,
        "numInputRows": rows,
        "inputRowsPerSecond": 4000.0,
        "processedRowsPerSecond": rows / seconds,
        "durationMs": {
            "addBatch": milliseconds - 150,
            "commitOffsets": 40,
            "getBatch": 5,
            "latestOffset": 20,
            "queryPlanning": 30,
            "triggerExecution": milliseconds,
            "walCommit": 45,
        },
        "eventTime": {"watermark": format_time(moment - 60)},
        "stateOperators": [
            {
                "operatorName": "stateStoreSave",
                "numRowsTotal": 123_456,
                "numRowsUpdated": 4000,
                "allUpdatesTimeMs": 900,
                "numRowsRemoved": 0,
                "allRemovalsTimeMs": 0,
                "commitTimeMs": 1200,
                "memoryUsedBytes": 34_000_000,
                "numRowsDroppedByWatermark": 0,
                "numShufflePartitions": 8,
                "numStateStoreInstances": 8,
                "customMetrics": rocksdb,
            }
        ],
        "sources": [
            {
                "description": "FileStreamSource[file:/data/in]",
                "startOffset": {"logOffset": sequence - 1},
                "endOffset": {"logOffset": sequence},
                "latestOffset": None,
                "numInputRows": rows,
                "inputRowsPerSecond": 4000.0,
                "processedRowsPerSecond": rows / seconds,
            }
        ],
        "sink": {"description": "ForeachBatchSink", "numOutputRows": -1},
    }
    return {
        "sequence": sequence,
        "type": "progress",
        "time": format_time(moment),
        "body": body,
        "limits": [
            {
                "source": 0,
                "unit": "rows",
                "limit": limit,
                "configured": limit,
                "backlog": backlog,
            }
        ],
        "trigger": TRIGGER,
    }


def heartbeat(sequence: int, queries: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {
        "sequence": sequence,
        "type": "heartbeat",
        "time": format_time(BASE_TIME + sequence),
        "body": {"queries": queries or []},
    }


def started(sequence: int, *, query: int = 0, name: str | None = None) -> dict[str, Any]:
    query_id, run_id = query_ids(query)
    return {
        "sequence": sequence,
        "type": "started",
        "time": format_time(BASE_TIME + sequence),
        "body": {
            "id": query_id,
            "runId": run_id,
            "name": name if name is not None else f"query-{query}",
            "trigger": TRIGGER,
            "control": "live",
            "outputMode": "update",
            "sink": "ForeachBatchSink",
            "checkpointLocation": "file:/data/checkpoint",
            "uiUrl": None,
            "conf": {},
        },
    }


def request(
    events: list[dict[str, Any]],
    *,
    application: str = "orders",
    application_id: str | None = None,
    instance: str | None = None,
    **listener: Any,
) -> dict[str, Any]:
    named = application if len(application) < 100 else sha256(application.encode()).hexdigest()
    return {
        "application": {
            "id": f"local-{named}" if application_id is None else application_id,
            "name": application,
            "spark_version": "4.2.0",
        },
        "listener": {
            "instance": f"listener-{named}" if instance is None else instance,
            "queue_length": 0,
            "dropped_total": 0,
            "callback_seconds_total": 0.8,
            "callbacks_total": 400,
            **listener,
        },
        "events": events,
    }


def body(events: list[dict[str, Any]], **of: Any) -> bytes:
    return json.dumps(request(events, **of)).encode()
