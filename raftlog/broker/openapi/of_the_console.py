"""Operations of the console."""

from __future__ import annotations

from raftlog.broker.openapi.operation import Contents, Operation, Raw, json_of
from raftlog.broker.openapi.parameters import CONSOLE_GROUP, CONSOLE_TOPIC_NAME, IF_NONE_MATCH, Parameter
from raftlog.errors import ErrorCode as E
from raftlog.wire import paths
from raftlog.wire.console import ConsoleSession, ConsoleTopic

_ETAG = Parameter(name="ETag", meaning="the file's; with `If-None-Match` the answer is 304")
_KINDS = ("text/html", "text/javascript", "text/css", "image/svg+xml")
_PAGE: Contents = {"text/html": Raw(meaning="The page", text=True)}
_FILE: Contents = {kind: Raw(meaning="A file of the page", text=True) for kind in _KINDS}
_EVENTS: Contents = {"text/event-stream": Raw(meaning="Server-sent events", text=True)}

CONSOLE_OPERATIONS = (
    Operation(
        method="GET",
        path=paths.CONSOLE,
        id="openConsole",
        tag="Console",
        summary="Return the page of the console",
        headers=(IF_NONE_MATCH,),
        answers={200: _PAGE, 304: {}},
        marks=(_ETAG,),
    ),
    Operation(
        method="GET",
        path=paths.CONSOLE_INDEX,
        id="console",
        tag="Console",
        summary="Return the page of the console",
        headers=(IF_NONE_MATCH,),
        answers={200: _PAGE, 304: {}},
        marks=(_ETAG,),
    ),
    Operation(
        method="GET",
        path=paths.CONSOLE_FILE,
        id="consoleFile",
        tag="Console",
        summary="Return a file of the console",
        details="Names with a hash of the content may be cached for a year.",
        headers=(IF_NONE_MATCH,),
        answers={200: _FILE, 304: {}},
        marks=(_ETAG,),
        errors=(E.NOT_FOUND,),
    ),
    Operation(
        method="GET",
        path=paths.CONSOLE_EVENTS,
        id="consoleEvents",
        tag="Console",
        summary="Send the state of the cluster every two seconds",
        details="Server-sent events: `history` has rates of the last minutes, `cluster` the newest sample. One sample "
        "serves all readers of a broker, and a slow reader misses some.",
        answers={200: _EVENTS},
    ),
    Operation(
        method="GET",
        path=paths.CONSOLE_SESSION,
        id="consoleSession",
        tag="Console",
        summary="Return the sender and its rights",
        query=(CONSOLE_TOPIC_NAME, CONSOLE_GROUP),
        answers={200: json_of(ConsoleSession)},
    ),
    Operation(
        method="GET",
        path=paths.CONSOLE_TOPIC,
        id="consoleTopic",
        tag="Console",
        summary="Return the logs of a topic's replicas on all brokers",
        answers={200: json_of(ConsoleTopic)},
        errors=(E.UNKNOWN_TOPIC_OR_PARTITION,),
    ),
)
