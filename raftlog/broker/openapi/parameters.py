"""Parameters of requests on the public listener. Handlers check queries with them, and the document shows them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, get_args, get_type_hints

from raftlog.broker.json_records import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from raftlog.broker.topic_reads import query as topic_reads
from raftlog.model import Isolation
from raftlog.record.formats import COLUMNS
from raftlog.request_marks import EXPECTED as REQUEST_ID_EXPECTED
from raftlog.request_marks import REQUEST_ID_PATTERN
from raftlog.wire import media
from raftlog.wire.admin import AclFilter
from raftlog.wire.client_ids import CLIENT_ID_PATTERN
from raftlog.wire.client_ids import EXPECTED as CLIENT_ID_EXPECTED
from raftlog.wire.coordinators import CoordinatorKind

MOST = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One name of a query, one variable of a path, or one header field of a request."""

    name: str
    meaning: str
    """In words, with the unit."""
    choices: tuple[str, ...] = ()
    """The values, if there are no others; with `integer`, the words that may stand in place of a number."""
    integer: bool = False
    least: int = 0
    most: int = MOST
    default: str | int | None = None
    """The value of a request that does not name it; None: see `meaning`."""
    pattern: str = ""
    """A regular expression (of JSON Schema) of the values."""
    example: str = ""
    repeats: bool = False
    """Whether a query may name it several times."""


CONSISTENCY = Parameter(
    name="consistency",
    choices=("linearizable", "local"),
    default="linearizable",
    meaning="`linearizable`: the answer holds everything that was acknowledged before the request; `local`: from this "
    "broker's memory, at once and without a quorum",
)
TOPIC_NAMES = Parameter(name="topic", repeats=True, meaning="only this topic; may be repeated")
SCOPE = Parameter(
    name="scope",
    choices=("cluster", "broker"),
    default="cluster",
    meaning="`broker`: only what this broker coordinates",
)
BROKER_SCOPE = Parameter(
    name="scope",
    choices=("broker", "cluster"),
    default="broker",
    meaning="`cluster`: those of all brokers; `broker`: only those that this broker coordinates",
)
LEADER_SCOPE = Parameter(
    name="scope",
    choices=("cluster", "broker"),
    default="cluster",
    meaning="`broker`: only partitions that this broker leads; others have an error",
)
MAX_PAGE = 1_000
"""The most entries of one page of a listing."""
CONTAINS = Parameter(name="contains", meaning="only names with this text, whatever its case")
AFTER = Parameter(name="after", meaning="only names after this one, in the order of their characters: `next` of a page")
LIMIT = Parameter(
    name="limit", integer=True, least=1, most=MAX_PAGE, meaning="at most so many entries. Default: all of them"
)
PAGE = (CONTAINS, AFTER, LIMIT)
STATE = Parameter(
    name="state",
    choices=("all", "open"),
    default="all",
    meaning="`open`: only transactions that have begun and have not ended",
)
LOGS_OF = Parameter(name="topic", repeats=True, meaning="only replicas of this topic, in sums, too; may be repeated")
ONLY = Parameter(
    name="only",
    choices=("all", "damaged"),
    default="all",
    meaning="`damaged`: list only replicas with damage or lost batches; sums count all of them",
)
AUDIT_PRINCIPAL = Parameter(name="principal", meaning="only lines of senders with this text, whatever its case")
AUDIT_RESOURCE = Parameter(
    name="resource", meaning="only lines with this text in the name of a resource, whatever its case"
)
AUDIT_OUTCOME = Parameter(
    name="outcome",
    choices=("all", "allowed", "denied", "would_deny", "failed", "unknown"),
    default="all",
    meaning="only lines with this outcome",
)
AUDIT_EVENT = Parameter(
    name="event",
    choices=("all", "login", "denial", "change", "use", "lost"),
    default="all",
    meaning="only lines of this event",
)
AUDIT_SINCE = Parameter(
    name="since",
    integer=True,
    most=MAX_TIMESTAMP_MS,
    default=0,
    meaning="only lines of this time (ms since 1970) or later",
)
AUDIT_UNTIL = Parameter(
    name="until",
    integer=True,
    most=MAX_TIMESTAMP_MS,
    meaning="only lines before this time (ms since 1970). Default: all of them",
)
AUDIT_BEFORE = Parameter(name="before", meaning="only lines before this place in the files: `next` of a page")
AUDIT_LIMIT = Parameter(name="limit", integer=True, least=1, most=500, default=100, meaning="at most so many lines")
AUDIT = (
    AUDIT_PRINCIPAL,
    AUDIT_RESOURCE,
    AUDIT_OUTCOME,
    AUDIT_EVENT,
    AUDIT_SINCE,
    AUDIT_UNTIL,
    AUDIT_BEFORE,
    AUDIT_LIMIT,
)
DETAIL = Parameter(name="detail", choices=("partitions",), meaning="also the metrics of each partition")
OFFSET = Parameter(
    name="offset",
    integer=True,
    choices=("earliest", "latest"),
    default="earliest",
    meaning="the offset of the first record to read",
)
MAX_BYTES = Parameter(
    name="max_bytes",
    integer=True,
    least=1,
    default=1 << 20,
    meaning="the most bytes of batches; the first batch is always whole. At most `broker.fetch_max_bytes`; an answer "
    "has at most 1 MiB in any case",
)
MAX_WAIT_MS = Parameter(
    name="max_wait_ms",
    integer=True,
    default=0,
    meaning="how long to wait for `min_bytes`, in ms; at most `broker.fetch_max_wait_ms`",
)
MIN_BYTES = Parameter(
    name="min_bytes", integer=True, default=1, meaning="answer before `max_wait_ms` has passed once there are so many"
)
_ISOLATION = "`read_committed` ends at the last stable offset and leaves out aborted records"
ISOLATION = Parameter(name="isolation", choices=get_args(Isolation), default="read_uncommitted", meaning=_ISOLATION)
REPLICA = Parameter(
    name="replica", choices=("leader", "any"), default="leader", meaning="`any`: a follower answers, too"
)
AT = Parameter(
    name="at",
    integer=True,
    choices=("earliest", "latest"),
    least=MIN_TIMESTAMP_MS,
    most=MAX_TIMESTAMP_MS,
    default="latest",
    meaning="`earliest`, `latest`, or a time in ms since 1970: the first offset at or after it, or the high watermark, "
    "if there is none. -1 and -2 are refused",
)
ACKS = Parameter(
    name="acks",
    choices=("all", "-1", "1", "0"),
    default="all",
    meaning="`all` (or `-1`): answered when every in-sync replica has the batch, on disk unless the topic sets "
    "`flush = os`; `1`: when the leader has it; `0`: at once",
)
TIMEOUT_MS = Parameter(
    name="timeout_ms",
    integer=True,
    least=1,
    meaning="how long to wait for the replicas, in ms; at most `broker.request_timeout_ms`, which is the default",
)
TRANSACTIONAL_ID = Parameter(
    name="transactional_id", default="", meaning="the transactional id of a transactional batch"
)
CONSOLE_TOPIC_NAME = Parameter(name="topic", meaning="the topic whose rights are wanted")
CONSOLE_GROUP = Parameter(name="group", meaning="the group whose rights are wanted")
RECORDS = (OFFSET, MAX_BYTES, MAX_WAIT_MS, MIN_BYTES, ISOLATION, REPLICA)

_PLACE = (
    "`earliest`, `latest`, a time in ISO 8601 (UTC if it names no zone), or offsets of partitions, as in `0:1500,1:20`"
)
FORMAT = Parameter(
    name="format",
    choices=("ndjson", "json", "arrow", "csv", "parquet", "events"),
    meaning="`json`: one array; `arrow`: an IPC stream; `csv`: RFC 4180, with a header line; `events`: server-sent "
    "events. Default: by `Accept`, else `ndjson`",
)
TOPIC_ISOLATION = Parameter(name="isolation", choices=get_args(Isolation), default="read_committed", meaning=_ISOLATION)
FOLLOW = Parameter(
    name="follow",
    choices=("true", "false"),
    default="false",
    meaning="`true` (at most 1,000 partitions): the answer does not end, records are sent as they arrive (`ndjson`, "
    "`csv`, `arrow`, `events`). Without records, a blank line (a comment, for events) is sent every 10 s",
)
TOPIC_READ = (
    FORMAT,
    Parameter(
        name="partitions",
        pattern=r"^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$",
        example="0,4-7",
        meaning=f"these partitions, in this order, as in `0,4-7`; at most {topic_reads.MAX_PARTITIONS:,}. Default: all",
    ),
    Parameter(name="from", default="earliest", example="2026-01-31T12:00:00Z", meaning=f"where to begin: {_PLACE}"),
    Parameter(
        name="until",
        default="latest",
        example="0:1500,1:20",
        meaning=f"where to end (exclusive), fixed when the request arrives: {_PLACE}. Not with `follow=true`",
    ),
    Parameter(
        name="columns",
        default=",".join(COLUMNS),
        example="offset,value",
        meaning=f"some of `{','.join(COLUMNS)}`, in this order",
    ),
    Parameter(name="max_records", integer=True, least=1, most=10**18 - 1, meaning="at most so many records"),
    Parameter(name="key", meaning="only records with this key (UTF-8)"),
    TOPIC_ISOLATION,
    FOLLOW,
)

_OF_RULES = {
    "principal": "`User:` and a user's name, `Group:` and a group's name, a user's name alone, or `*`",
    "operation": "the operation that the rule allows or denies",
    "resource_type": "the kind of resource",
    "resource_name": "a name, a prefix, or `*`",
    "pattern": "whether `resource_name` is a whole name or a prefix",
    "permission": "whether the rule allows or denies",
    "host": "the client's host, or `*`",
}


def _of_filter(name: str, hint: Any) -> Parameter:
    values = next(kind for kind in get_args(hint) if kind is not type(None))
    return Parameter(name=name, choices=get_args(values), meaning=f"only rules with this value: {_OF_RULES[name]}")


ACL_FILTER = tuple(_of_filter(field.name, get_type_hints(AclFilter)[field.name]) for field in fields(AclFilter))

PATH_VARIABLES = {
    parameter.name: parameter
    for parameter in (
        Parameter(name="topic", meaning="the topic's name"),
        Parameter(name="partition", integer=True, most=10**9 - 1, meaning="the partition's number"),
        Parameter(
            name="broker",
            integer=True,
            choices=("default",),
            meaning="the broker's id; `default` means all brokers, where the operation allows it",
        ),
        Parameter(name="user", meaning="the user's name"),
        Parameter(name="file", meaning="the file's name"),
        Parameter(name="group", meaning="the group's id"),
        Parameter(name="kind", choices=get_args(CoordinatorKind), meaning="what is coordinated"),
        Parameter(name="key", meaning="the group's id, or the transactional id"),
        Parameter(name="transactional_id", meaning="the transactional id"),
        Parameter(name="set_id", meaning="the set's id: what stands before `::` in its transactional ids"),
    )
}
"""Every variable of a path, by name."""

DEADLINE = Parameter(
    name=media.DEADLINE_MS,
    integer=True,
    meaning="how long the caller will wait, in ms; it bounds every wait of the server, long polls included",
)
CLIENT_ID = Parameter(
    name=media.CLIENT_ID,
    pattern=f"^{CLIENT_ID_PATTERN}$",
    meaning=f"the application's name: {CLIENT_ID_EXPECTED}",
)
REQUEST_ID = Parameter(
    name=media.REQUEST_ID,
    pattern=f"^{REQUEST_ID_PATTERN}$",
    meaning=f"the request's id: {REQUEST_ID_EXPECTED}; one of another form is replaced, a missing one is made",
)
PASS_ON = Parameter(
    name=media.PASS_ON,
    choices=("true",),
    meaning="`true`: a broker that cannot answer sends the request to the one that can, and passes its answer on",
)
IF_NONE_MATCH = Parameter(name="If-None-Match", meaning="the `ETag` of an answer that the caller has")
TOPIC_READ_HEADERS = (
    Parameter(name="Accept-Encoding", meaning="codings of the answer that the caller accepts: `zstd`, `gzip`"),
    Parameter(name="Last-Event-ID", meaning="where a reader of server-sent events goes on; in place of `from`"),
    Parameter(name="Range", meaning="a part of the file, in bytes, for `parquet`, `ndjson` and `csv`"),
    Parameter(name="If-Range", meaning="answer the part only if the `ETag` is still this one"),
)
