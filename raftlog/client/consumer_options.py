"""The options of a consumer, checked, and the parts that they make."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, get_args

from raftlog.client.arguments import partitions_option, require_id
from raftlog.client.connection import Connection
from raftlog.client.fetching import Fetcher
from raftlog.client.manual_assignment import ManualAssignment
from raftlog.client.options import require_at_least, require_effect
from raftlog.client.reader import PartitionReader
from raftlog.client.security import Security
from raftlog.client.start_offsets import Start
from raftlog.errors import ConfigError
from raftlog.model import Isolation

if TYPE_CHECKING:
    from raftlog.client.group_session import GroupSession, OnRebalance
    from raftlog.wire.groups import Assignor

OutOfRange: TypeAlias = Literal["error", "earliest", "latest"]
Reset: TypeAlias = Literal["earliest", "latest", "none"] | timedelta
_MEMBERS = "only members of a group have it: set group_id"
_ONLY_IN_GROUPS = {
    "auto_offset_reset": f"{_MEMBERS}, or use start and on_out_of_range without one",
    **dict.fromkeys(
        (
            "pattern",
            "group_instance_id",
            "enable_auto_commit",
            "auto_commit_interval_ms",
            "session_timeout_ms",
            "max_poll_interval_ms",
            "assignor",
            "on_assigned",
            "on_revoked",
            "on_lost",
        ),
        _MEMBERS,
    ),
}
_ONLY_ALONE = {
    "start": "not in a group, which goes on from its commits: use auto_offset_reset",
    "on_out_of_range": "not in a group: use auto_offset_reset",
    "partitions": "not with a group_id, whose coordinator assigns them",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """The options of `Consumer`; its docstring explains them."""

    bootstrap: str | Sequence[str]
    topics: tuple[str, ...]
    partitions: Iterable[int] | None
    start: Start
    group_id: str | None
    pattern: str | None
    group_instance_id: str | None
    auto_offset_reset: Reset
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    session_timeout_ms: int | None
    max_poll_interval_ms: int
    assignor: Assignor | None
    on_assigned: OnRebalance | None
    on_revoked: OnRebalance | None
    on_lost: OnRebalance | None
    client_id: str
    on_out_of_range: OutOfRange
    fetch_max_wait_ms: int
    fetch_min_bytes: int
    fetch_max_bytes: int
    partition_max_bytes: int
    request_timeout_ms: int
    isolation: Isolation
    client_rack: str
    dial: Mapping[str, str] | None
    security: Security | None

    @classmethod
    def checked(cls, given: Mapping[str, Any], defaults: Mapping[str, object]) -> Self:
        """Return the options among the arguments of a constructor.

        Raises:
            ConfigError: an option is out of range, or has no effect with the others.
        """
        options = cls(**{field.name: given[field.name] for field in fields(cls)})
        options._require_known_values()
        require_effect(given, defaults, _ONLY_IN_GROUPS if options.group_id is None else _ONLY_ALONE)
        options._require_numbers()
        return options

    def _require_known_values(self) -> None:
        if not self.topics and self.pattern is None:
            raise ConfigError("topics: expected at least one, received none")
        if odd := next((topic for topic in self.topics if not isinstance(topic, str)), None):
            raise ConfigError(f"topics: expected names, one argument each, received {odd!r}")
        if self.isolation not in get_args(Isolation):
            raise ConfigError(f"isolation: expected read_committed or read_uncommitted, received {self.isolation!r}")
        if self.group_id is not None:
            require_id("group_id", self.group_id)
        reset = self.auto_offset_reset
        if not isinstance(reset, timedelta) and reset not in ("earliest", "latest", "none"):
            raise ConfigError(f"auto_offset_reset: expected earliest, latest, none or a timedelta, received {reset!r}")
        if self.on_out_of_range not in get_args(OutOfRange):
            expected = ", ".join(get_args(OutOfRange))
            raise ConfigError(f"on_out_of_range: expected one of {expected}, received {self.on_out_of_range!r}")

    def _require_numbers(self) -> None:
        require_at_least(0, fetch_max_wait_ms=self.fetch_max_wait_ms, fetch_min_bytes=self.fetch_min_bytes)
        require_at_least(
            1,
            fetch_max_bytes=self.fetch_max_bytes,
            partition_max_bytes=self.partition_max_bytes,
            request_timeout_ms=self.request_timeout_ms,
            max_poll_interval_ms=self.max_poll_interval_ms,
            auto_commit_interval_ms=self.auto_commit_interval_ms,
        )

    @property
    def _reset(self) -> Start | None:
        """Return where reading goes on without a usable position; None: it raises."""
        if self.group_id is None:
            return None if self.on_out_of_range == "error" else self.on_out_of_range
        return None if self.auto_offset_reset == "none" else self.auto_offset_reset

    def connection(self) -> Connection:
        """Return the consumer's connection to the cluster."""
        return Connection(
            self.bootstrap,
            timeout_ms=self.request_timeout_ms,
            dial=self.dial,
            waits=True,
            security=self.security,
            client_id=self.client_id,
        )

    def reader(self, connection: Connection) -> PartitionReader:
        """Return the reader of the consumer's partitions."""
        fetcher = Fetcher(
            connection,
            max_wait_ms=self.fetch_max_wait_ms,
            min_bytes=self.fetch_min_bytes,
            max_bytes=self.fetch_max_bytes,
            partition_max_bytes=self.partition_max_bytes,
            rack=self.client_rack,
            isolation=self.isolation,
        )
        return PartitionReader(connection, fetcher, on_out_of_range=self._reset)

    def manual_assignment(self, connection: Connection, reader: PartitionReader) -> ManualAssignment:
        """Return the assignment of a consumer without a group.

        Raises:
            ConfigError: `partitions` is empty, or an item is not a partition's number.
        """
        chosen = None if self.partitions is None else partitions_option(self.partitions)
        return ManualAssignment(connection, reader, self.topics, chosen)

    def group_session(self, connection: Connection, reader: PartitionReader) -> GroupSession | None:
        """Return the consumer's session in its group; None: it has no group."""
        if self.group_id is None:
            return None
        from raftlog.client.core.membership import MemberOptions, Membership  # noqa: PLC0415  (only groups need them)
        from raftlog.client.group_session import GroupOptions, GroupSession  # noqa: PLC0415

        member = MemberOptions(
            topics=self.topics,
            pattern=self.pattern or "",
            instance_id=self.group_instance_id,
            assignor=self.assignor,
            rack=self.client_rack,
            client_id=connection.session.client_id,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.max_poll_interval_ms,
        )
        return GroupSession(
            connection,
            reader,
            Membership(uuid.uuid4().hex, member),
            group_id=self.group_id,
            max_poll_interval_ms=self.max_poll_interval_ms,
            options=GroupOptions(
                reset=self._reset,
                auto_commit_interval_ms=self.auto_commit_interval_ms if self.enable_auto_commit else None,
                timeout_ms=self.request_timeout_ms,
                on_assigned=self.on_assigned,
                on_revoked=self.on_revoked,
                on_lost=self.on_lost,
            ),
        )
