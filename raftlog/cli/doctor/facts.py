"""What doctor's checks work on. Gatherers fill these in; an empty `error` means that a fact was received."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from raftlog.metrics.text import NO_SAMPLES, Samples
from raftlog.wire.admin import FeaturesResponse, LogDirsResponse, QuorumResponse
from raftlog.wire.metadata import ClusterInfo, TopicInfo

Kind: TypeAlias = Literal["broker", "controller", "bootstrap"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerFacts:
    """One address, as seen from this machine."""

    listener: Literal["public", "internal", "quorum"]
    url: str
    error: str = ""
    """Why it cannot be reached; "": it can."""
    certificate_end_s: float | None = None
    """When its certificate ends, in seconds since 1970; None: no TLS, or it was not received."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """One node. `bootstrap` is an address of the user's own, while the cluster is not known."""

    kind: Kind
    node_id: int = -1
    listeners: tuple[ListenerFacts, ...] = ()
    """The first one answers requests of clients."""
    clock_s: tuple[float, float] | None = None
    """The lowest and the highest difference of the node's clock to this machine's, in seconds."""
    metrics: Samples = NO_SAMPLES
    version: str = ""
    """The version in its registration, or in its metrics; "": unknown."""
    authorizer: str = ""
    """`security.authorizer` of a broker; "": unknown."""
    log_dirs: LogDirsResponse | None = None
    failures: Mapping[str, str] = field(default_factory=dict)
    """Requests that failed although the node answers others: the error by the name of what was requested."""

    @property
    def name(self) -> str:
        return f"broker {self.node_id}" if self.kind == "broker" else f"controller {self.node_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """A cluster as one of its brokers describes it."""

    now_s: float
    """This machine's clock, in seconds since 1970."""
    on_node: bool = False
    """Whether this is the machine of a node, which reaches every internal listener."""
    bootstrap: tuple[ListenerFacts, ...] = ()
    """The user's own addresses."""
    cluster: ClusterInfo | None = None
    """None: no broker answered."""
    topics: tuple[TopicInfo, ...] | None = None
    quorum: QuorumResponse | None = None
    features: FeaturesResponse | None = None
    nodes: tuple[NodeFacts, ...] = ()
    left_out: int = 0
    """Nodes beyond the limit, which were not looked at."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """Why a part of the description is missing, by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFacts:
    """A folder with data."""

    path: str
    error: str = ""
    """Why it cannot be used; "": it can."""
    missing: bool = False
    """It does not exist yet; the rest describes the nearest folder above."""
    filesystem: str = ""
    """The type of its file system, as in `ext4`; "": unknown."""
    total_bytes: int = -1
    free_bytes: int = -1
    sync_ms: tuple[float, ...] = ()
    """How long each sync of 4 KiB took, in ms."""
    sync_error: str = ""
    quarantined: int = 0
    """Damaged logs that were set aside."""
    owner: tuple[str, int] | None = None
    """Cluster id and node id in `meta.json`; None: it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """A file that the node's settings name."""

    setting: str
    """As in `security.cluster_key_file`."""
    path: str
    error: str = ""
    mode: int = 0
    """Permission bits."""
    certificate_end_s: float | None = None
    """The earliest end of the certificates in it, in seconds since 1970; None: it is a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """The settings of a node that checks need."""

    cluster_id: str
    node_id: int
    is_broker: bool
    nofile_wanted: int
    """Open files for all connections and segments that a broker's settings allow; 0: it is no broker."""
    memory_wanted: int
    """Bytes for the node and the buffers that the settings allow."""
    open_listeners: tuple[str, ...] = ()
    """Listeners that other machines reach."""
    authorizer: str = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """The machine on which doctor runs, and the node's files."""

    now_s: float
    settings: NodeSettings | None = None
    settings_error: str = ""
    cpus: int = 0
    memory_bytes: int = 0
    """Of the machine, or of the control group if that allows less; 0: unknown."""
    swap_bytes: int = 0
    swappiness: int = -1
    """-1: unknown."""
    congestion: str = ""
    """The default congestion control of TCP; "": unknown."""
    congestions: tuple[str, ...] = ()
    """Those that every process may select."""
    nofile: int = 0
    """The highest limit of open files that a process may set itself; -1: none."""
    folders: tuple[FolderFacts, ...] = ()
    files: tuple[FileFacts, ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)
