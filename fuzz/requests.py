"""Bytes of requests for every route: heads, query strings, JSON, frames and batches that no client would send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from fuzz import batches
from raftlog.metadata_quorum.admin_operations import ADMIN_OPERATIONS
from raftlog.wire import admin, controller, data, groups, media, metadata, paths, repair, replication, transactions
from raftlog.wire.codec import encode_frame, encode_json
from raftlog.wire.packed_fetch import pack_request

NAMES = ("t", "fuzz", "", "..", "a b", "é", "__consumer_offsets", "__transaction_state", "x" * 300, "\x1b[31m", "-1")
NUMBERS = (0, 1, 2, 3, -1, -2, 101, 255, 65_536, 2**31 - 1, 2**31, 2**53, 2**62, 2**63 - 1, -(2**63))
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "get", "")
_TYPES = (media.JSON, media.BATCHES, media.FRAME, "text/plain", 'application/json; charset="', "")
PATHS = sorted({path for name, path in vars(paths).items() if name.isupper() and isinstance(path, str)})
BODIES: dict[str, tuple[str, type]] = {
    paths.TOPICS: ("POST", metadata.CreateTopicRequest),
    paths.TOPIC: ("PATCH", admin.AlterTopicBody),
    paths.REASSIGNMENTS: ("POST", admin.ReassignmentRequest),
    paths.LEADER_ELECTIONS: ("POST", admin.ElectLeadersRequest),
    paths.BROKER_CONFIGS: ("PATCH", admin.BrokerConfigsBody),
    paths.FEATURES: ("PATCH", admin.FeaturesBody),
    paths.ACLS: ("POST", admin.AclsRequest),
    paths.QUOTAS: ("PATCH", admin.QuotaRequest),
    paths.PRODUCE: ("POST", data.ProduceRequest),
    paths.FETCH: ("POST", data.FetchRequest),
    paths.TOPIC_RECORDS: ("POST", data.JsonProduceRequest),
    paths.DELETE_RECORDS: ("POST", data.DeleteRecordsBody),
    paths.GROUP_HEARTBEAT: ("POST", groups.GroupHeartbeatRequest),
    paths.GROUP_OFFSETS: ("POST", groups.OffsetCommitRequest),
    paths.GROUP_OFFSETS_FETCH: ("POST", groups.OffsetFetchRequest),
    paths.GROUP_OFFSETS_DELETE: ("POST", groups.OffsetDeleteRequest),
    paths.INIT_TRANSACTIONS: ("POST", transactions.InitTransactionsBody),
    paths.END_TRANSACTION: ("POST", transactions.EndTransactionBody),
    paths.TRANSACTION_OFFSETS: ("POST", transactions.TransactionOffsetsBody),
    paths.END_TRANSACTION_SET: ("POST", transactions.EndSetBody),
    paths.REPLICA_FETCH: ("POST", replication.ReplicaFetchRequest),
    paths.REPAIR: ("POST", repair.RepairRequest),
    paths.JOIN_TRANSACTION: ("POST", transactions.JoinTransactionRequest),
    paths.WRITE_MARKERS: ("POST", transactions.WriteMarkersRequest),
    paths.REGISTER_BROKER: ("POST", controller.RegisterBrokerRequest),
    paths.HEARTBEAT: ("POST", controller.HeartbeatRequest),
    paths.ALTER_PARTITIONS: ("POST", controller.AlterPartitionsRequest),
    paths.DAMAGED_REPLICAS: ("POST", controller.DamagedReplicasRequest),
    paths.PRODUCER_ID_BLOCK: ("POST", controller.ProducerIdBlockRequest),
    paths.READ: ("POST", admin.ReadRequest),
    paths.CREATE_TOPIC: ("POST", metadata.CreateTopicRequest),
    **{path: ("POST", cls) for path, (cls, _) in ADMIN_OPERATIONS.items()},
}
"""By route with a body: its method and its message."""


_QUERY_NAMES = st.sampled_from(
    (
        *("at", "offset", "max_bytes", "max_wait_ms", "after_offset", "broker_id", "consistency", "isolation", "topic"),
        *("format", "partitions", "from", "until", "columns", "max_records", "key", "x"),
    )
)
_TOPIC_READS = ("arrow", "parquet", "csv", "events", "0-9999", "0-", "0:1", "0:1,0:2", "0001-01-01T00:00:00+23:59")
_ODD_VALUES = ("earliest", "latest", "local", "read_committed", "t", "", "%", "%00", "1e9", "\u00b2", "9" * 5_000)
_QUERY_VALUES = st.sampled_from((*_ODD_VALUES, *_TOPIC_READS, *map(str, NUMBERS)))
_FIELDS = (
    "Accept: application/vnd.apache.arrow.stream",
    "Accept: application/x-ndjson",
    "Accept: " + "a/b;q=" * 500,
    "Transfer-Encoding: chunked",
    "Content-Encoding: gzip",
    "Content-Length: 99999999999999999999",
    "Content-Length: -1",
    "Expect: 100-continue",
    "Connection: close",
    "Connection: upgrade",
    "Upgrade: websocket",
    "Range: bytes=0-",
    "Range: bytes=-1",
    "Range: bytes=5-99999999999999999999",
    "Accept: text/csv;q=0.5, */*;q=0",
    "Accept-Encoding: gzip;q=0.1, zstd",
    "Last-Event-ID: 0:1",
    "raftlog-deadline-ms: -1",
    "raftlog-deadline-ms: 99999999999999999999",
    "Origin: http://evil.example",
    "Host: evil.example",
    "X: " + "x" * 20_000,
)
_HEAVY = (
    b"[" * 990 + b"]" * 990,
    b"[" * 100_000,
    b'{"a":' * 200 + b"1" + b"}" * 200,
    b'{"topic":' + b"9" * 5_000 + b"}",
    b'{"partitions":[' + b"{}," * 30_000 + b"{}]}",
    b'{"records":[' + b'{"value":1},' * 25_000 + b'{"value":1}]}',
    b'{"records":[' + b'{"value":1},' * 19_000 + b'{"value":1}]}',
    b'{"records":[{"value":1,"headers":{' + b",".join(b'"%d":1' % number for number in range(180_000)) + b"}}]}",
    b'"' + b"\\u0000" * 50_000 + b'"',
)
_TEXTS = st.one_of(st.sampled_from(NAMES), st.text(max_size=8))
_INTEGERS = st.sampled_from(NUMBERS)
_PLAIN: SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), _INTEGERS, st.floats(allow_nan=False), _TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_TEXTS, inner, max_size=4)),
    max_leaves=10,
)
_JSON = st.builds(encode_json, _PLAIN)
_BATCHES = st.builds(
    batches.mutated, st.sampled_from(batches.seeds()), st.one_of(st.just([]), st.lists(batches.changes(), max_size=3))
)
_SIMPLE: dict[Any, SearchStrategy[Any]] = {
    str: _TEXTS,
    int: _INTEGERS,
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    type(None): st.none(),
    Any: _PLAIN,
}


def shaped(kind: Any) -> SearchStrategy[Any]:
    """Return a strategy for plain data with a wire type's shape."""
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return st.fixed_dictionaries({}, optional={name: shaped(hint) for name, hint in hints.items()})
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return st.one_of(st.sampled_from(inner), _TEXTS)
    if origin in (Union, UnionType):
        return st.one_of(*map(shaped, inner))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return st.dictionaries(shaped(inner[0]), shaped(inner[1]), max_size=3)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return st.lists(shaped(inner[0]), max_size=3)
    return _PLAIN


def _frame(topic: str, partition: int, batch: bytes, wrong: int) -> tuple[str, bytes]:
    asked = data.ProducePartition(topic=topic, partition=partition, length=len(batch) + wrong)
    return media.FRAME, b"".join(encode_frame(data.ProduceRequest(partitions=(asked,)), [batch]))


_FRAMES = st.builds(_frame, _TEXTS, st.sampled_from((0, 1, -1)), _BATCHES, st.sampled_from((0, 0, 0, 1, -1)))


_SMALL, _LONG = st.sampled_from((0, 1, 2, 3, 2**31 - 1)), st.sampled_from((-1, 0, 1, 2, 2**53, 2**63 - 1))
_POSITIONS = st.builds(
    replication.ReplicaFetchPartition,
    topic_id=st.binary(min_size=16, max_size=16).map(bytes.hex),
    partition=_SMALL,
    leader_epoch=_SMALL,
    fetch_offset=_LONG,
    last_fetched_epoch=_SMALL,
    log_start_offset=_LONG,
    check_crcs=st.booleans(),
)
_FETCHES = st.builds(
    replication.ReplicaFetchRequest,
    replica_id=_SMALL,
    broker_epoch=_LONG,
    max_wait_ms=st.sampled_from((0, 1, 100)),
    session_id=st.sampled_from(("", "1-1", "2-1", "s")),
    session_epoch=_SMALL,
    answers_lost=st.booleans(),
    partitions=st.lists(_POSITIONS, max_size=3).map(tuple),
)
_PACKED = st.builds(pack_request, _FETCHES)


def listener_of(path: str) -> str:
    """Return the listener that serves a path."""
    if not path.startswith("/internal/"):
        return "public"
    return (
        "internal"
        if path in (paths.REPLICA_FETCH, paths.REPAIR, paths.JOIN_TRANSACTION, paths.WRITE_MARKERS)
        else "controller"
    )


def requests(path: str) -> SearchStrategy[bytes]:
    """Return a strategy for the bytes of one request to a route."""
    byte_changes = st.one_of(st.just([]), st.just([]), st.just([]), st.lists(batches.changes(), max_size=3))
    return st.builds(batches.changed, _request(path), byte_changes)


def _request(path: str) -> SearchStrategy[bytes]:
    method, cls = BODIES.get(path, ("GET", None))
    return st.builds(
        _render,
        st.one_of(st.just(method), st.just(method), st.just(method), st.sampled_from(_METHODS)),
        st.builds(_filled, st.just(path), st.lists(st.sampled_from((*NAMES, "0", "1")), min_size=3, max_size=3)),
        st.one_of(st.just([]), st.lists(st.tuples(_QUERY_NAMES, _QUERY_VALUES), max_size=3)),
        st.one_of(st.just([]), st.lists(st.sampled_from(_FIELDS), max_size=2)),
        _body(path, cls),
    )


def _render(method: str, path: str, query: list[tuple[str, str]], fields: list[str], body: tuple[str, bytes]) -> bytes:
    target = path + ("?" + "&".join(f"{name}={value}" for name, value in query) if query else "")
    kind, content = body
    lines = [
        f"{method} {target} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Content-Type: {kind}",
        f"Content-Length: {len(content)}",
    ]
    return "\r\n".join([*lines, *fields, "", ""]).encode("utf-8", "replace") + content


def _filled(path: str, values: list[str]) -> str:
    parts = path.split("{")
    names = [part.split("}")[0] for part in parts[1:]]
    return paths.fill(path, **dict(zip(names, values, strict=False)))


def _body(path: str, cls: type | None) -> SearchStrategy[tuple[str, bytes]]:
    anything = [
        st.tuples(st.just(media.JSON), _JSON),
        st.tuples(st.sampled_from(_TYPES), st.binary(max_size=200)),
        st.tuples(st.just(media.JSON), st.sampled_from(_HEAVY)),
    ]
    if path == paths.BATCHES:
        return st.one_of(st.tuples(st.just(media.BATCHES), _BATCHES), *anything)
    if cls is None:
        return st.one_of(st.just(("", b"")), st.just(("", b"")), *anything)
    fitting = st.builds(encode_json, shaped(cls))
    if path == paths.PRODUCE:
        return st.one_of(_FRAMES, _FRAMES, *anything)
    if path == paths.REPLICA_FETCH:
        return st.one_of(st.tuples(st.just(media.PLAIN), _PACKED), st.tuples(st.just(media.JSON), fitting), *anything)
    sent = st.tuples(st.just(media.JSON), fitting)
    return st.one_of(sent, sent, sent, *anything)


def plain() -> SearchStrategy[Any]:
    """Return a strategy for any plain data."""
    return _PLAIN


def heavy_json() -> SearchStrategy[bytes]:
    """Return a strategy for JSON that is long or deep."""
    return st.sampled_from(_HEAVY)
