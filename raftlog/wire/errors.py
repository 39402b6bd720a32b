"""The error of one result in a response with several results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from raftlog.errors import ErrorCode, RaftlogError, from_wire
from raftlog.schema import SHOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class WireError:
    """A `RaftlogError` inside a response."""

    code: str = field(metadata={SHOWN: ErrorCode})
    message: str
    retriable: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)
    request_id: str = ""
    """The id of the request; empty where the node did not note it."""

    @classmethod
    def of(cls, error: RaftlogError, request_id: str = "") -> WireError:
        return cls(
            code=error.code.value,
            message=error.message,
            retriable=error.retriable,
            details=error.details,
            request_id=request_id,
        )

    def to_error(self) -> RaftlogError:
        return from_wire(
            {"code": self.code, "message": self.message, "details": self.details, "request_id": self.request_id}
        )
