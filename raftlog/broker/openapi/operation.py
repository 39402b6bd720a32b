"""What the document says of one route, apart from rights: see `operations`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from raftlog.broker.openapi.parameters import Parameter
from raftlog.errors import ErrorCode
from raftlog.wire import media
from raftlog.wire.answers import ErrorAnswer

Tag: TypeAlias = Literal[
    "Produce", "Fetch", "Groups", "Transactions", "Topics", "Cluster", "Security", "Console", "Node"
]
TAGS: dict[Tag, str] = {
    "Produce": "Append records.",
    "Fetch": "Read and delete records.",
    "Groups": "Consumer groups and their offsets, at the group's coordinator.",
    "Transactions": "Transactions, at the transaction's coordinator.",
    "Topics": "Topics, and where their replicas are.",
    "Cluster": "Brokers, controllers and their settings.",
    "Security": "Users, access rules, quotas and audit logs.",
    "Console": "The console in a browser; `listeners.console` turns it off.",
    "Node": "Health, metrics, and this document.",
}
"""What each group of operations is about, in the document's order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """A body that is not JSON."""

    meaning: str
    text: bool = False
    head: Any = None
    """The type of a frame's head."""


Contents: TypeAlias = Mapping[str, Any]
"""The type of JSON, or a `Raw`, by media type. Empty: no body."""


def json_of(kind: Any) -> Contents:
    """Return the contents of a JSON body."""
    return {media.JSON: kind}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    id: str
    """The document's `operationId`: code generators name functions by it."""
    tag: Tag
    summary: str
    details: str = ""
    """More sentences, as Markdown."""
    query: tuple[Parameter, ...] = ()
    headers: tuple[Parameter, ...] = ()
    """Header fields of the request, apart from those of all requests."""
    body: Contents = field(default_factory=dict)
    answers: Mapping[int, Contents]
    """The answers of success, by status."""
    marks: tuple[Parameter, ...] = ()
    """Header fields of the answers of success."""
    errors: tuple[ErrorCode, ...] = ()
    """The errors to expect, apart from those of all requests."""
    error_body: Any = ErrorAnswer
    error_marks: Mapping[int, tuple[Parameter, ...]] = field(default_factory=dict)
    """Header fields of errors of this operation, by status."""
    redirects: str = ""
    """The broker to which others send the request, in words; empty: every broker answers."""
    elsewhere: Literal[307, 421] = 307
    """How other brokers answer: 307 with the address, or the error NOT_COORDINATOR."""
    unlimited: bool = False
    """Whether it is served under any load: no quota applies, and it is never answered 429."""

    @property
    def may_be_passed_on(self) -> bool:
        """Whether another broker passes a request on if the caller asks for it: raw batches and streams it does not."""
        forms = {form for contents in (self.body, *self.answers.values()) for form in contents}
        return self.redirects != "" and forms <= {media.JSON}

    @property
    def only_there(self) -> str:
        """What other brokers answer, in words; empty: every broker answers."""
        return f"Other brokers than {self.redirects} answer {self.elsewhere}." if self.redirects else ""

    @property
    def name(self) -> str:
        """Method and path."""
        return f"{self.method} {self.path}"
