"""Parses and validates the source's `.option(...)` values.

Names follow Spark's Kafka source: a Kafka user changes only the format's name and the bootstrap (`option_names.py`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from pyspark_raftlog import task_traces
from pyspark_raftlog.credentials import Credentials
from pyspark_raftlog.option_names import CREDENTIAL_OPTIONS, KNOWN_OPTIONS, SINK_OPTIONS, RawOptions
from pyspark_raftlog.parsing import (
    Position,
    PositionSpec,
    Subscription,
    parse_assign,
    parse_bool,
    parse_bootstrap,
    parse_client_id,
    parse_count,
    parse_dial,
    parse_duration,
    parse_isolation,
    parse_name,
    parse_offsets,
    parse_pattern,
    parse_size,
    parse_strategy,
    parse_subscribe,
    parse_time,
    parse_times,
)
from raftlog.errors import ConfigError
from raftlog.model import Address, Isolation

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """The options for connecting to the cluster."""

    bootstrap: tuple[Address, ...]
    dial: Mapping[str, str] = field(default_factory=dict)
    credentials: Credentials = field(default_factory=Credentials)
    timeout_ms: int = 120_000
    client_id: str = ""
    """The application's name, for quotas; empty: the variable `RAFTLOG_CLIENT_ID`, or none."""
    traceparent: str = ""
    """The span of the driver to which the work belongs; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(ConnectionOptions):
    """The options of a read. Spark pickles them for executors, so they are plain data."""

    subscription: Subscription
    starting: PositionSpec | None = None
    """None: the mode's default (earliest for a batch, latest for a stream)."""
    ending: PositionSpec | None = None
    without_match: Literal["error", "latest"] = "error"
    """The meaning of a starting time later than every record."""
    fail_on_data_loss: bool = True
    isolation: Isolation = "read_committed"
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 900_000
    group_id: str = ""
    """The group in which a stream publishes its position; empty: none."""
    client_rack: str = ""
    min_partitions: int | None = None
    max_partitions: int | None = None
    max_records_per_partition: int | None = None
    include_headers: bool = False
    fetch_bytes: int = 8 << 20
    push_down_predicate: bool = False
    """Whether a batch query may use its filters to fetch less; see `RaftlogReader`."""

    @property
    def rack(self) -> str:
        """The rack of this process; executors in several racks set an environment variable each."""
        return self.client_rack or os.environ.get(RACK_VARIABLE, "")

    def for_batch(self) -> SourceOptions:
        """Apply the defaults of a batch query; raise for options of streams."""
        starting = "earliest" if self.starting is None else self.starting
        ending = "latest" if self.ending is None else self.ending
        if "latest" in _positions(starting):
            raise ConfigError("startingOffsets: a batch query cannot begin at latest (-1); name earliest or an offset")
        if "earliest" in _positions(ending):
            raise ConfigError("endingOffsets: a batch query cannot end at earliest (-2); name latest or an offset")
        if self.is_limited or self.group_id:
            _log.warning("limits per trigger, and groupId, are for streams; this batch query ignores them")
        return replace(self, starting=starting, ending=ending)

    @property
    def is_limited(self) -> bool:
        """Return whether a stream's micro-batches have a lower or an upper limit."""
        limits = (self.max_offsets_per_trigger, self.max_bytes_per_trigger, self.min_offsets_per_trigger)
        return any(limit is not None for limit in limits)

    def for_stream(self) -> SourceOptions:
        """Apply the defaults of a stream; raise for options of batch queries."""
        if self.ending is not None:
            raise ConfigError("endingOffsets, endingOffsetsByTimestamp and endingTimestamp are for batch queries only")
        least, most = self.min_offsets_per_trigger or 0, self.max_offsets_per_trigger
        if most is not None and least > most:
            raise ConfigError(f"minOffsetsPerTrigger ({least}) is larger than maxOffsetsPerTrigger ({most})")
        return replace(self, starting="latest" if self.starting is None else self.starting)


def _positions(spec: PositionSpec) -> tuple[Position, ...]:
    return tuple(spec.values()) if isinstance(spec, Mapping) else (spec,)


RACK_VARIABLE = "RAFTLOG_CLIENT_RACK"


def parse_options(raw: Mapping[str, str]) -> SourceOptions:
    """Validate every option of a read.

    Raises:
        ConfigError: an option is invalid; the message names it, the value and what is expected.
    """
    given = RawOptions(raw, KNOWN_OPTIONS, passed_over=SINK_OPTIONS)
    if given.has("maxTriggerDelay") and not given.has("minOffsetsPerTrigger"):
        raise ConfigError("maxTriggerDelay limits how long minOffsetsPerTrigger holds a batch back: set that one, too")
    return SourceOptions(
        bootstrap=given.required("bootstrap", parse_bootstrap),
        dial=given.take("dial", parse_dial, {}),
        credentials=credentials_of(given),
        subscription=_subscription(given),
        starting=_position_spec(given, "starting"),
        ending=_position_spec(given, "ending"),
        without_match=given.take("startingOffsetsByTimestampStrategy", parse_strategy, "error"),
        fail_on_data_loss=given.take("failOnDataLoss", parse_bool, True),
        isolation=given.take("isolation", parse_isolation, "read_committed"),
        max_offsets_per_trigger=given.take("maxOffsetsPerTrigger", parse_count, None),
        max_bytes_per_trigger=given.take("maxBytesPerTrigger", parse_size, None),
        min_offsets_per_trigger=given.take("minOffsetsPerTrigger", parse_count, None),
        max_trigger_delay_ms=given.take("maxTriggerDelay", parse_duration, 900_000),
        group_id=given.take("groupId", parse_name, ""),
        client_rack=given.take("clientRack", parse_name, ""),
        min_partitions=given.take("minPartitions", parse_count, None),
        max_partitions=_max_partitions(given),
        max_records_per_partition=given.take("maxRecordsPerPartition", parse_count, None),
        include_headers=given.take("includeHeaders", parse_bool, False),
        timeout_ms=given.take("timeoutMs", parse_count, 120_000),
        client_id=given.take("clientId", parse_client_id, ""),
        traceparent=given.take("traceparent", task_traces.parse_option, ""),
        fetch_bytes=given.take("fetchBytes", parse_size, 8 << 20),
        push_down_predicate=given.take("pushDownPredicate", parse_bool, False),
    )


def credentials_of(given: RawOptions) -> Credentials:
    """Return the options for TLS and credentials."""
    ca_file, cert_file, key_file, user, password_file, login, token_file = (
        given.take(name, str, "") for name in CREDENTIAL_OPTIONS
    )
    return Credentials(
        ca_file=ca_file,
        cert_file=cert_file,
        key_file=key_file,
        user=user,
        password_file=password_file,
        login=login,
        token_file=token_file,
    )


def _max_partitions(given: RawOptions) -> int | None:
    most = given.take("maxPartitions", parse_count, None)
    if most is not None and given.has("maxRecordsPerPartition"):
        raise ConfigError("maxPartitions and maxRecordsPerPartition both set the size of tasks: set one of them")
    if most is not None and most < (least := given.take("minPartitions", parse_count, 1)):
        raise ConfigError(f"minPartitions ({least}) is larger than maxPartitions ({most})")
    return most


def _subscription(given: RawOptions) -> Subscription:
    names = [name for name in ("subscribe", "subscribePattern", "assign") if given.has(name)]
    if len(names) != 1:
        found = " and ".join(names) or "none"
        if given.has("topic") and not names:
            found = "only topic, which is the target of writes"
        raise ConfigError(f"exactly one of subscribe, subscribePattern and assign is required; received {found}")
    parse: dict[str, Callable[[str], Subscription]] = {
        "subscribe": parse_subscribe,
        "subscribePattern": parse_pattern,
        "assign": parse_assign,
    }
    return given.required(names[0], parse[names[0]])


def _position_spec(given: RawOptions, edge: Literal["starting", "ending"]) -> PositionSpec | None:
    """Return the position by Spark's precedence for Kafka: a time, times by partition, offsets."""
    if given.has(f"{edge}Timestamp"):
        return given.required(f"{edge}Timestamp", parse_time)
    if given.has(f"{edge}OffsetsByTimestamp"):
        return given.required(f"{edge}OffsetsByTimestamp", parse_times)
    return given.take(f"{edge}Offsets", parse_offsets, None)
