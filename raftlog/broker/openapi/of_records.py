"""Operations on records: produce, fetch, delete."""

from __future__ import annotations

from raftlog.broker.openapi.operation import Operation, Raw, json_of
from raftlog.broker.openapi.parameters import (
    ACKS,
    AT,
    ISOLATION,
    LEADER_SCOPE,
    RECORDS,
    TIMEOUT_MS,
    TOPIC_READ,
    TOPIC_READ_HEADERS,
    TRANSACTIONAL_ID,
    Parameter,
)
from raftlog.errors import ErrorCode as E
from raftlog.wire import media, paths
from raftlog.wire.answers import JsonProduceAnswer, JsonProduceError, JsonRecords, JsonRow
from raftlog.wire.data import (
    DeleteRecordsBody,
    DeleteRecordsResponse,
    FetchRequest,
    FetchResponse,
    JsonProduceRequest,
    OffsetResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceResult,
    ProducerIdResponse,
)
from raftlog.wire.offsets import OffsetsBody, OffsetsResponse

_BATCHES = Raw(meaning="record batches, as stored")
_ARROW = Raw(meaning="an Arrow IPC stream")
_APPEND = (
    E.UNKNOWN_TOPIC_OR_PARTITION,
    E.NOT_LEADER_OR_FOLLOWER,
    E.LEADER_NOT_AVAILABLE,
    E.NOT_ENOUGH_REPLICAS,
    E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    E.REQUEST_TIMED_OUT,
    E.CORRUPT_MESSAGE,
    E.INVALID_RECORD,
    E.INVALID_TIMESTAMP,
    E.INVALID_REQUIRED_ACKS,
    E.INSUFFICIENT_STORAGE,
    E.KAFKA_STORAGE_ERROR,
)
_IDEMPOTENT = (
    E.OUT_OF_ORDER_SEQUENCE_NUMBER,
    E.DUPLICATE_SEQUENCE_NUMBER,
    E.INVALID_PRODUCER_EPOCH,
    E.UNKNOWN_PRODUCER_ID,
    E.INVALID_TXN_STATE,
    E.INVALID_PRODUCER_ID_MAPPING,
    E.PRODUCER_FENCED,
)
_READ = (E.UNKNOWN_TOPIC_OR_PARTITION, E.LEADER_NOT_AVAILABLE, E.KAFKA_STORAGE_ERROR, E.OFFSET_NOT_AVAILABLE)
_LEADER = "the partition's leader"
_MARKS = (
    Parameter(name=media.HIGH_WATERMARK, integer=True, least=-1, meaning="the partition's high watermark"),
    Parameter(name=media.LAST_STABLE_OFFSET, integer=True, least=-1, meaning="the partition's last stable offset"),
    Parameter(name=media.LOG_START_OFFSET, integer=True, least=-1, meaning="the first offset of the log"),
    Parameter(name=media.LEADER_EPOCH, integer=True, least=-1, meaning="the partition's leader epoch"),
    Parameter(name=media.NEXT_OFFSET, integer=True, meaning="the offset of the next read"),
    Parameter(name=media.MORE, choices=("true", "false"), meaning="whether there are more records than the answer has"),
)
_TOPIC_MARKS = (
    Parameter(name=media.FROM, meaning="where the answer begins, in the form of `from`; up to 100 partitions"),
    Parameter(name=media.UNTIL, meaning="where the answer ends, in the form of `until`; up to 100 partitions"),
    Parameter(name="Content-Encoding", choices=("zstd", "gzip"), meaning="by `Accept-Encoding`; absent: none"),
    Parameter(name="ETag", meaning="of an answer whose bytes stay the same: with a fixed `from` and `until`"),
    Parameter(name="Accept-Ranges", choices=("bytes",), meaning="present if `Range` works"),
    Parameter(name="Content-Range", meaning="which bytes of the file an answer 206 has; with 416, the file's size"),
)
_PREFLIGHT = "Answer a browser's CORS preflight"
_PREFLIGHT_DETAILS = "Pages of the origins in `listeners.cors_origins` may read this path."
_ROWS = "a record a line, as JSON: see the schema `JsonRow`"

RECORD_OPERATIONS = (
    Operation(
        method="POST",
        path=paths.TOPIC_RECORDS,
        id="produceRecords",
        tag="Produce",
        summary="Append records as JSON, at any broker",
        details="A value that is not a string is stored as its JSON text. The answer has the records' places in order. "
        "If some are not stored, the status is that of the first error, and `offsets` has an error for each of them.",
        query=(ACKS, TIMEOUT_MS),
        body=json_of(JsonProduceRequest),
        answers={200: json_of(JsonProduceAnswer)},
        errors=_APPEND,
        error_body=JsonProduceError,
    ),
    Operation(
        method="POST",
        path=paths.BATCHES,
        id="produceBatch",
        tag="Produce",
        summary="Append one raw record batch",
        details="The [format of batches](batch-format.md).",
        query=(ACKS, TIMEOUT_MS, TRANSACTIONAL_ID),
        body={media.BATCHES: Raw(meaning="one record batch")},
        answers={200: json_of(ProduceResult)},
        errors=_APPEND + _IDEMPOTENT,
        redirects=_LEADER,
    ),
    Operation(
        method="POST",
        path=paths.PRODUCE,
        id="produce",
        tag="Produce",
        summary="Append batches to several partitions that this broker leads",
        details="Each partition has a result of its own. `outlived_retention_ms` is the topic's `retention_ms` if the "
        "records are already older.",
        body={media.FRAME: Raw(meaning="a frame: one batch for each partition", head=ProduceRequest)},
        answers={200: json_of(ProduceResponse)},
    ),
    Operation(
        method="POST",
        path=paths.PRODUCERS,
        id="createProducerId",
        tag="Produce",
        summary="Issue a producer id for idempotent batches",
        details="It is below 2^53. Leaders refuse ids that the cluster has not issued: `UNKNOWN_PRODUCER_ID` ([ADR "
        "0019](../adr/0019-producer-ids-cannot-be-guessed.md)).",
        answers={201: json_of(ProducerIdResponse)},
        errors=(E.QUORUM_NOT_AVAILABLE,),
    ),
    Operation(
        method="GET",
        path=paths.TOPIC_RECORDS,
        id="readTopic",
        tag="Fetch",
        summary="Read a whole topic as one answer, at any broker",
        details="See [whole topics](http.md#whole-topics).",
        query=TOPIC_READ,
        headers=TOPIC_READ_HEADERS,
        answers={
            status: {
                media.NDJSON: Raw(meaning=_ROWS, text=True),
                media.JSON: list_of_rows,
                media.ARROW_STREAM: _ARROW,
                media.CSV: Raw(meaning="RFC 4180, with a header line", text=True),
                media.PARQUET: Raw(meaning="a Parquet file"),
                "text/event-stream": Raw(meaning="a record an event; its id is a position, for `from`", text=True),
            }
            for status, list_of_rows in ((200, tuple[JsonRow, ...]), (206, tuple[JsonRow, ...]))
        },
        marks=_TOPIC_MARKS,
        error_marks={416: _TOPIC_MARKS},
        errors=(*_READ, E.OFFSET_OUT_OF_RANGE, E.INVALID_TIMESTAMP, E.UNKNOWN_TOPIC_ID, E.REQUEST_TIMED_OUT),
    ),
    Operation(
        method="OPTIONS",
        path=paths.TOPIC_RECORDS,
        id="preflightOfTopic",
        tag="Fetch",
        summary=_PREFLIGHT,
        details=_PREFLIGHT_DETAILS,
        answers={204: {}},
    ),
    Operation(
        method="GET",
        path=paths.RECORDS,
        id="readPartition",
        tag="Fetch",
        summary="Read records of one partition",
        details="In the [form](http.md#forms-of-records) of `Accept`. With `replica=any` a follower answers, too. With "
        "`max_wait_ms` the request waits for records.",
        query=RECORDS,
        answers={
            200: {
                media.JSON: JsonRecords,
                media.NDJSON: Raw(meaning="a record a line, as JSON: see the schema `JsonReadRecord`", text=True),
                media.ARROW_STREAM: _ARROW,
                media.BATCHES: _BATCHES,
            }
        },
        marks=_MARKS,
        errors=(*_READ, E.OFFSET_OUT_OF_RANGE),
        redirects=_LEADER,
    ),
    Operation(
        method="OPTIONS",
        path=paths.RECORDS,
        id="preflightOfPartition",
        tag="Fetch",
        summary=_PREFLIGHT,
        details=_PREFLIGHT_DETAILS,
        answers={204: {}},
    ),
    Operation(
        method="POST",
        path=paths.FETCH,
        id="fetch",
        tag="Fetch",
        summary="Read several partitions at once, long-polled",
        details="With `rack` the leader may name a replica there. Each partition has a result of its own.",
        body=json_of(FetchRequest),
        answers={200: {media.FRAME: Raw(meaning="a frame: the batches of each partition", head=FetchResponse)}},
    ),
    Operation(
        method="POST",
        path=paths.MANY_OFFSETS,
        id="findManyOffsets",
        tag="Fetch",
        summary="Find offsets of many partitions, at any broker",
        details="As for one partition; at most 10,000. Each has an error of its own.",
        query=(AT, ISOLATION, LEADER_SCOPE),
        body=json_of(OffsetsBody),
        answers={200: json_of(OffsetsResponse)},
    ),
    Operation(
        method="GET",
        path=paths.OFFSETS,
        id="findOffset",
        tag="Fetch",
        summary="Find the offset of `earliest`, `latest` or a time",
        details="With `isolation=read_committed` the last stable offset takes the high watermark's place.",
        query=(AT, ISOLATION),
        answers={200: json_of(OffsetResponse)},
        errors=(*_READ, E.INVALID_TIMESTAMP),
        redirects=_LEADER,
    ),
    Operation(
        method="POST",
        path=paths.DELETE_RECORDS,
        id="deleteRecords",
        tag="Fetch",
        summary="Delete the records below an offset for good",
        details="Answered when no replica that may lead next has them; 504 if that is unknown at the deadline: send "
        'the request again. With `"high_watermark"` for an offset, the repeated request also deletes what was '
        "acknowledged since the first one. Above the high watermark: `OFFSET_OUT_OF_RANGE`, and nothing is deleted.",
        body=json_of(DeleteRecordsBody),
        answers={200: json_of(DeleteRecordsResponse)},
        errors=(*_READ, E.OFFSET_OUT_OF_RANGE, E.REQUEST_TIMED_OUT, E.INVALID_TOPIC_EXCEPTION),
        redirects=_LEADER,
    ),
)
