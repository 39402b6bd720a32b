"""One node's settings, as written in its `node.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from raftlog.config.group import GroupConfig
from raftlog.config.replication import ReplicationConfig
from raftlog.config.security import SecurityConfig
from raftlog.config.tls import TlsConfig
from raftlog.config.topic import MIN_SEGMENT_BYTES, TopicConfig
from raftlog.errors import ConfigError
from raftlog.model import Address
from raftlog.schema import from_plain

Role: TypeAlias = Literal["controller", "broker"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenersConfig:
    """Addresses this node binds. A broker needs `public` and `internal`; a controller `internal`."""

    public: Address | None = None
    """Clients: produce, fetch, admin."""
    internal: Address | None = None
    """Other nodes: replication, and the controllers' requests. A combined node serves both here."""
    allowed_hosts: tuple[str, ...] = ()
    """More names under which browsers may reach this node, besides those of its addresses."""
    cors_origins: tuple[str, ...] = ()
    """Sites whose pages may read records by URL, as in `https://app.example.org`; they may change nothing."""
    kafka: bool = True
    """Whether the public listener serves Kafka's clients, too, beside HTTP."""

    console: bool = True
    """Whether a broker serves the console, at `/console` of its listener for clients."""

    def __post_init__(self) -> None:
        for origin in self.cors_origins:
            scheme, slashes, place = origin.partition("://")
            if scheme not in ("http", "https") or not slashes or not place or "/" in place or "*" in place:
                raise ConfigError(
                    f"listeners.cors_origins: expected origins like https://app.example.org, received {origin!r:.80}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvertisedConfig:
    """Addresses others should dial, where they differ from the listeners."""

    public: Address | None = None
    internal: Address | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterConfig:
    """One member of the metadata quorum."""

    node_id: int
    quorum: Address
    """Its Raft listener."""
    internal: Address
    """Its HTTP listener for brokers; `https://host:port` if it is to be dialled with TLS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumConfig:
    """The voters, and the key that authenticates them."""

    voters: tuple[VoterConfig, ...]
    key_file: str = ""
    """A file with at least 32 bytes shared by all controllers. Required on controllers."""
    listen: Address | None = None
    """Where this controller's Raft listens, if not on its voter address."""

    def __post_init__(self) -> None:
        ids = [voter.node_id for voter in self.voters]
        if len(set(ids)) != len(ids):
            raise ConfigError(f"quorum.voters: node ids must be unique, received {ids}")
        for name in ("quorum", "internal"):
            addresses = [getattr(voter, name) for voter in self.voters]
            if len(set(addresses)) != len(addresses):
                raise ConfigError(
                    f"quorum.voters: each needs its own {name} address, received {list(map(str, addresses))}"
                )
        if len(ids) % 2 == 0:
            raise ConfigError(f"quorum.voters: expected an odd number of voters (3 or 5), received {len(ids)}")


def _require_positive(section: str, settings: object, *names: str) -> None:
    for name in names:
        if getattr(settings, name) < 1:
            raise ConfigError(f"{section}.{name} must be at least 1, received {getattr(settings, name)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """Settings of controllers."""

    broker_session_timeout_ms: int = 3_000
    """A broker without a heartbeat for this long is fenced."""
    session_check_interval_ms: int = 100
    proposal_timeout_ms: int = 5_000
    """After this long a proposal's outcome is unknown."""
    snapshot_min_entries: int = 20_000
    leader_imbalance_check_interval_ms: int = 30_000
    """How often preferred leaders are elected, where a broker lacks more than a tenth of its preferred leaderships."""
    log_scrub_interval_ms: int = 3_600_000
    """How often the quorum's journal and snapshot are read and checked; -1: never."""

    def __post_init__(self) -> None:
        _require_positive(
            "controller",
            self,
            "broker_session_timeout_ms",
            "session_check_interval_ms",
            "proposal_timeout_ms",
            "snapshot_min_entries",
            "leader_imbalance_check_interval_ms",
        )
        if self.log_scrub_interval_ms != -1 and self.log_scrub_interval_ms < 1_000:
            raise ConfigError(
                "controller.log_scrub_interval_ms must be -1 (never), or 1000 (a second) or more, received "
                f"{self.log_scrub_interval_ms}"
            )
        if self.broker_session_timeout_ms < 3 * self.session_check_interval_ms:
            raise ConfigError(
                "controller.broker_session_timeout_ms must be at least three times session_check_interval_ms, "
                f"received {self.broker_session_timeout_ms} and {self.session_check_interval_ms}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """Settings of brokers."""

    broker_heartbeat_interval_ms: int = 500
    num_partitions: int = 1
    """Partitions of a topic created without a number of partitions."""
    default_replication_factor: int = 3
    """Replicas of a topic created without a replication factor; at most the number of registered brokers."""
    auto_create_topics_enable: bool = False
    """Whether a topic that does not exist is created when a Kafka client asks for its metadata."""
    max_request_bytes: int = 64 << 20
    max_connections: int = 10_000
    """Connections of each listener; fewer if the process may not open so many files."""
    max_connections_per_address: int = 5_000
    """Connections of each listener from one IP address."""
    max_inflight_requests: int = 1_024
    max_inflight_bytes: int = 256 << 20
    """Produce bytes in memory at once; more are answered 429."""
    max_streams: int = 64
    """Topics that are read by URL at once (`GET /v1/topics/{topic}/records`); each takes up to 16 MB."""
    request_timeout_ms: int = 30_000
    """The longest wait of a produce for its acknowledgement."""
    fetch_max_wait_ms: int = 30_000
    fetch_max_bytes: int = 52_428_800
    retention_check_interval_ms: int = 30_000
    checkpoint_interval_ms: int = 5_000
    producer_id_expiration_ms: int = 86_400_000
    """An idempotent producer that has not written to a partition for this long expires there."""
    producer_id_min_idle_ms: int = 180_000
    """When a partition has `max_producer_ids`, producers idle for less than this stay, and new ones are refused."""
    max_producer_ids: int = 10_000
    """The most producers whose state a partition keeps; the one that wrote longest ago is dropped first."""
    max_open_segments: int = 1_000
    """The most open segment files; the least recently used are closed first."""
    log_cleaner_enable: bool = True
    """Whether this broker compacts the logs of compacted topics."""
    log_cleaner_backoff_ms: int = 15_000
    """How long the cleaner waits when no log needs compaction."""
    log_cleaner_io_max_bytes_per_second: int = -1
    """The most bytes that the cleaner reads and writes per second; -1: no limit."""
    log_cleaner_dedupe_buffer_bytes: int = 128 << 20
    """Memory for the keys of one log during compaction; a log with more keys takes several passes."""
    log_scrub_interval_ms: int = 7 * 86_400_000
    """How often every log is read and checked; -1: only on request."""
    log_scrub_bytes_per_second: int = 16 << 20
    """The most bytes that the scrubber reads per second."""
    offsets_topic_num_partitions: int = 50
    """Partitions of `__consumer_offsets`, which spread groups over brokers; used when the topic is created."""
    offsets_topic_replication_factor: int = 3
    """Replicas of `__consumer_offsets`; fewer only if fewer brokers are registered."""
    offsets_topic_segment_bytes: int = 32 << 20
    transaction_state_log_num_partitions: int = 50
    transaction_state_log_replication_factor: int = 3
    transaction_state_log_segment_bytes: int = 32 << 20
    transaction_max_timeout_ms: int = 900_000
    """The longest transaction time-out that a producer may request."""
    transactional_id_expiration_ms: int = 7 * 86_400_000
    """How long an unused transactional id is kept."""

    def __post_init__(self) -> None:
        self._require_internal_topics()
        if self.producer_id_min_idle_ms < 0:
            raise ConfigError(
                f"broker.producer_id_min_idle_ms must be at least 0, received {self.producer_id_min_idle_ms}"
            )
        _require_positive(
            "broker",
            self,
            "broker_heartbeat_interval_ms",
            "checkpoint_interval_ms",
            "log_cleaner_backoff_ms",
            "max_connections",
            "max_connections_per_address",
            "max_producer_ids",
            "max_streams",
            "retention_check_interval_ms",
        )
        if self.log_scrub_interval_ms != -1 and self.log_scrub_interval_ms < 1_000:
            raise ConfigError(
                "broker.log_scrub_interval_ms must be -1 (never), or 1000 (a second) or more, received "
                f"{self.log_scrub_interval_ms}"
            )
        if self.log_scrub_bytes_per_second < 65_536:
            raise ConfigError(
                "broker.log_scrub_bytes_per_second must be at least 65536 (64 KiB), received "
                f"{self.log_scrub_bytes_per_second}"
            )
        rate = self.log_cleaner_io_max_bytes_per_second
        if rate != -1 and rate < 1:
            raise ConfigError(f"broker.log_cleaner_io_max_bytes_per_second must be -1, or 1 or more, received {rate}")
        if self.log_cleaner_dedupe_buffer_bytes < 1 << 20:
            raise ConfigError(
                "broker.log_cleaner_dedupe_buffer_bytes must be at least 1048576 (1 MiB), received "
                f"{self.log_cleaner_dedupe_buffer_bytes}"
            )

    def _require_internal_topics(self) -> None:
        for topic in ("offsets_topic", "transaction_state_log"):
            for name, least in (("num_partitions", 1), ("replication_factor", 1), ("segment_bytes", MIN_SEGMENT_BYTES)):
                value = getattr(self, f"{topic}_{name}")
                if value < least:
                    raise ConfigError(f"broker.{topic}_{name} must be at least {least}, received {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """One process. `raftlog dev up` writes such a file for each node; see `docs/reference/settings.md`."""

    node_id: int
    roles: tuple[Role, ...]
    data_dir: str
    cluster_id: str
    """All nodes of a cluster share it; a data folder of another cluster is refused."""
    quorum: QuorumConfig
    rack: str = ""
    log_dirs: tuple[str, ...] = ()
    """Folders for partitions, one for each disk; none means `data_dir`."""
    listeners: ListenersConfig = field(default_factory=ListenersConfig)
    advertised: AdvertisedConfig = field(default_factory=AdvertisedConfig)
    tls: TlsConfig = field(default_factory=TlsConfig)
    dial: Mapping[str, str] = field(default_factory=dict)
    """`"host:port" = "host:port"`: dial the second where the first is advertised (NAT, proxies, chaos)."""
    controller: ControllerConfig = field(default_factory=ControllerConfig)
    broker: BrokerConfig = field(default_factory=BrokerConfig)
    replication: ReplicationConfig = field(default_factory=ReplicationConfig)
    group: GroupConfig = field(default_factory=GroupConfig)
    topic: TopicConfig = field(default_factory=TopicConfig)
    """Defaults of topics on this cluster."""
    security: SecurityConfig = field(default_factory=SecurityConfig)

    def __post_init__(self) -> None:
        if not self.roles or len(set(self.roles)) != len(self.roles):
            raise ConfigError(f"roles: expected controller, broker or both, received {list(self.roles)}")
        if not 0 <= self.node_id < 2**31:
            raise ConfigError(f"node_id: expected 0 to {2**31 - 1}, received {self.node_id}")
        if len(set(self.log_dirs)) != len(self.log_dirs):
            raise ConfigError(f"log_dirs: expected each folder once, received {list(self.log_dirs)}")
        if self.listeners.internal is None:
            raise ConfigError("listeners.internal: missing; every node needs it, for example '127.0.0.1:9410'")
        if self.is_broker and self.listeners.public is None:
            raise ConfigError("listeners.public: missing; a broker needs it, for example '127.0.0.1:9400'")
        if self.is_controller:
            self._require_voter()
        if 2 * self.broker.broker_heartbeat_interval_ms >= self.controller.broker_session_timeout_ms:
            raise ConfigError(
                "broker.broker_heartbeat_interval_ms: expected less than half of controller.broker_session_timeout_ms "
                f"({self.controller.broker_session_timeout_ms}), received {self.broker.broker_heartbeat_interval_ms}: "
                "a broker would be fenced between two heartbeats"
            )
        self._require_plain_texts()
        self._require_node_identity()
        if self.tls.internal == "required":  # In a cluster, so do the others: voters are dialled with TLS.
            voters = tuple(replace(each, internal=each.internal._replace(tls=True)) for each in self.quorum.voters)
            object.__setattr__(self, "quorum", replace(self.quorum, voters=voters))

    def _require_plain_texts(self) -> None:
        """Require that only voters' internal addresses say `https://`: `[tls]` decides for this node's own."""
        own = {
            "listeners.public": self.listeners.public,
            "listeners.internal": self.listeners.internal,
            "advertised.public": self.advertised.public,
            "advertised.internal": self.advertised.internal,
            "quorum.listen": self.quorum.listen,
            **{f"quorum.voters ({voter.node_id}).quorum": voter.quorum for voter in self.quorum.voters},
        }
        for name, address in own.items():
            if address is not None and address.tls:
                raise ConfigError(f"{name}: expected host:port, received {address}; [tls] says which listeners use TLS")

    def _require_node_identity(self) -> None:
        """Require that nodes can prove to each other that they are nodes: by the cluster key, or by certificates."""
        if self.security.authorizer != "acl" or self.security.cluster_key_file:
            return
        tls = self.tls
        has_certificates = tls.internal == "required" and tls.node_auth == "required"
        if self.is_broker:  # Brokers forward requests to the public listeners of others.
            has_certificates &= tls.public != "off" and tls.client_auth != "none"
        if not has_certificates:
            raise ConfigError(
                'security.cluster_key_file: missing; with authorizer = "acl", nodes prove to each other with this key '
                "that they belong to the cluster. Without a key they do so with certificates that name them: set "
                'tls.internal and tls.node_auth to "required", on brokers also tls.public, and tls.client_auth to '
                '"optional" or "required"'
            )

    def _require_voter(self) -> None:
        if self.node_id not in [voter.node_id for voter in self.quorum.voters]:
            raise ConfigError(f"quorum.voters: controller {self.node_id} is not among them")
        if not self.quorum.key_file:
            raise ConfigError("quorum.key_file: missing; a controller needs the file with the shared key")

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def public(self) -> Address:
        """The address advertised to clients."""
        address = self.advertised.public or self.listeners.public
        assert address is not None
        return address._replace(tls=self.tls.public != "off")

    @property
    def internal(self) -> Address:
        """The address advertised to other nodes: with TLS only where required; nodes without `[tls]` may dial it."""
        address = self.advertised.internal or self.listeners.internal
        assert address is not None
        return address._replace(tls=self.tls.internal == "required")

    @property
    def own_hosts(self) -> tuple[str, ...]:
        """The host names of this node that requests from browsers may use."""
        here = (self.listeners.public, self.listeners.internal, self.advertised.public, self.advertised.internal)
        return (*self.listeners.allowed_hosts, *(address.host for address in here if address is not None))

    @classmethod
    def load(cls, path: Path) -> NodeConfig:
        """Read a `node.toml`; relative folders and key files are relative to the file's folder.

        Raises:
            ConfigError: the file cannot be read, is not TOML, or a setting is unknown or does not fit.
        """
        try:
            document = tomllib.loads(path.read_text("utf-8"))
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} is not valid TOML: {error}") from error
        _make_absolute(document, path.parent.absolute())
        try:
            return from_plain(cls, document, error=ConfigError)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error.message}") from None


def _make_absolute(document: dict[str, object], folder: Path) -> None:
    tls, security = document.get("tls"), document.get("security")
    tokens = security.get("tokens") if isinstance(security, dict) else None
    files = (
        (document.get("quorum"), "key_file"),
        (security, "cluster_key_file"),
        (security, "audit_file"),
        (tokens, "jwks_file"),
        (tokens, "ca_file"),
        (tls, "cert_file"),
        (tls, "key_file"),
        (tls, "ca_file"),
    )
    for holder, name in ((document, "data_dir"), *files):
        if isinstance(holder, dict) and isinstance(value := holder.get(name), str) and value:
            holder[name] = str(folder / value)
    if isinstance(log_dirs := document.get("log_dirs"), list):
        document["log_dirs"] = [str(folder / path) if isinstance(path, str) else path for path in log_dirs]
