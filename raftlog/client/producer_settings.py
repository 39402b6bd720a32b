"""A producer's options, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from raftlog.client.arguments import is_whole, require_id
from raftlog.client.core.partition_queue import MAX_IN_FLIGHT
from raftlog.client.options import require_at_least
from raftlog.client.partitioning import Partitioner
from raftlog.errors import ConfigError
from raftlog.record import Compression
from raftlog.wire.data import AcksText

TRANSACTION_TIMEOUT_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """The options of `Producer` that concern records; its docstring explains them.

    Raises:
        ConfigError: an option is out of range, or has no effect with the others.
    """

    acks: AcksText
    linger_ms: int
    batch_bytes: int
    buffer_bytes: int
    max_block_ms: int
    delivery_timeout_ms: int
    request_timeout_ms: int
    max_in_flight: int
    compression: Compression | None
    partitioner: Partitioner | None
    transactional_id: str
    transaction_timeout_ms: int
    close_timeout_ms: int

    def __post_init__(self) -> None:
        if self.transactional_id:
            require_id("transactional_id", self.transactional_id)
        elif self.transaction_timeout_ms != TRANSACTION_TIMEOUT_MS:
            raise ConfigError(
                "transaction_timeout_ms: only transactions have it: set transactional_id; "
                f"received {self.transaction_timeout_ms!r}"
            )
        if self.transactional_id and self.acks != "all":
            raise ConfigError(f"transactional_id: a transaction needs acks='all', received {self.acks!r}")
        require_at_least(
            0, linger_ms=self.linger_ms, max_block_ms=self.max_block_ms, close_timeout_ms=self.close_timeout_ms
        )
        require_at_least(
            1,
            batch_bytes=self.batch_bytes,
            buffer_bytes=self.buffer_bytes,
            request_timeout_ms=self.request_timeout_ms,
        )
        require_at_least(self.linger_ms, delivery_timeout_ms=self.delivery_timeout_ms)
        if not is_whole(self.max_in_flight, 1) or self.max_in_flight > MAX_IN_FLIGHT:
            raise ConfigError(f"max_in_flight must be 1 to {MAX_IN_FLIGHT}, received {self.max_in_flight!r}")
        if self.compression not in (None, *get_args(Compression)):
            raise ConfigError(f"compression: expected None, lz4 or zstd, received {self.compression!r}")
        if self.partitioner is not None and not callable(self.partitioner):
            raise ConfigError(f"partitioner: expected a function, received {self.partitioner!r}")

    @property
    def longest_block_ms(self) -> int:
        """Return how long a record may wait for buffer space: not beyond its delivery timeout."""
        return min(self.max_block_ms, self.delivery_timeout_ms)


def acks_text(acks: AcksText | Literal[0, 1, -1]) -> AcksText:
    """Return the option `acks` as requests carry it.

    Raises:
        ConfigError: another value.
    """
    known: dict[object, AcksText] = {"all": "all", -1: "all", "1": "1", 1: "1", "0": "0", 0: "0"}
    if isinstance(acks, bool) or acks not in known:
        raise ConfigError(f"acks: expected 'all', 1 or 0, received {acks!r}")
    return known[acks]
