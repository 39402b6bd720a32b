"""The answer with lines of a broker's audit log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from raftlog.model import BrokerId

AuditKept: TypeAlias = Literal["file", "log", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One line. Fields that it lacks are empty; long ones are cut."""

    time: str
    """When it was written, in ISO 8601 (UTC)."""
    node: str
    """The node that wrote it."""
    event: str
    """`login`, `denial`, `change`, `use` or `lost`; `unreadable`: the line is damaged, and only `line` is known."""
    principal: str
    """The sender."""
    address: str
    """The sender's IP address."""
    operation: str
    """What was requested or used; of a change, the method and the path; of a login, its method."""
    resource: str
    """The kind of resource and its name; of a change, the names in the path, or those in its fields."""
    outcome: str
    """`allowed`, `denied`, `would_deny`, `failed` or `unknown`."""
    reason: str
    """Why it was not allowed."""
    line: str
    """The line as it is in the file; at most 4,096 characters of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResponse:
    """Answer of `GET paths.AUDIT`: lines of one broker, newest first."""

    broker_id: BrokerId
    """The broker that wrote them."""
    kept: AuditKept
    """Where the broker writes its audit log: to a file, to its own log only, or nowhere."""
    entries: tuple[AuditEntry, ...]
    """The lines that match, newest first."""
    reached: str
    """The time of the oldest line that was looked at, whether it matches or not; empty: there was none."""
    next: str
    """The `before` of the next page, which has older lines; empty: there are no more."""
