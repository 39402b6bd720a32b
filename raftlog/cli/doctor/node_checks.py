"""The checks of one node, by its metrics and its log folders. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from raftlog.cli.doctor.facts import NodeFacts
from raftlog.cli.doctor.findings import Finding, Severity, failed, named
from raftlog.wire.admin import LogDirsResponse, StoredReplica, UnusableReplica

DAMAGE = "docs/how-to/recover-a-damaged-disk.md"
MONITOR = "docs/how-to/monitor.md"
FREE_WARN, FREE_ERROR = 0.10, 0.03
"""Shares of a disk; the alert RaftlogDiskNearlyFull has the first one."""
FILES_USED = 0.9
LOOP_LAG_S = 0.1
METRICS = (
    "raftlog_build_info",
    "raftlog_active_controller",
    "raftlog_cluster_partitions",
    "raftlog_cluster_offline_partitions",
    "raftlog_partitions",
    "raftlog_partitions_led",
    "raftlog_under_replicated_partitions",
    "raftlog_under_min_isr_partitions",
    "raftlog_disk_free_bytes",
    "raftlog_disk_size_bytes",
    "raftlog_quarantined_logs",
    "raftlog_corrupt_replicas",
    "raftlog_repairing_replicas",
    "raftlog_refusing_replicas",
    "raftlog_lost_batches",
    "raftlog_event_loop_lag_seconds",
    "process_open_fds",
    "process_max_fds",
)
"""Those that the checks use."""


def check_node(node: NodeFacts) -> Iterator[Finding]:
    """Return what is found in a node that answers."""
    for what, why in node.failures.items():
        yield failed(what, node.name, why, severity="note" if node.kind == "controller" else "warning")
    if node.log_dirs is not None:
        yield from _replicas(node, node.log_dirs)
    yield from _damage(node)
    yield from _disks(node)
    yield from _process(node)


def _replicas(node: NodeFacts, stored: LogDirsResponse) -> Iterator[Finding]:
    if stored.offline:
        yield Finding(
            severity="error",
            check="replicas",
            where=node.name,
            found=f"{len(stored.offline):,} cannot be used: "
            + named(f"{each.topic}-{each.partition} ({each.error})" for each in stored.offline),
            advice="The broker's log has more. A replica that no other one can replace needs the operator.",
            docs=DAMAGE,
        )
    replicas = [replica for folder in stored.log_dirs for replica in folder.replicas]
    stored_or_not: list[StoredReplica | UnusableReplica] = [*replicas, *stored.offline]
    lost = [each for each in stored_or_not if each.lost_batches]
    if lost:
        yield Finding(
            severity="error",
            check="replicas",
            where=node.name,
            found="batches that no replica has intact: "
            + named(f"{each.topic}-{each.partition} at {each.lost_batches[0]}" for each in lost),
            advice="See the section about a lost batch.",
            docs=DAMAGE,
        )
    damaged = [each for each in replicas if each.damage and not each.lost_batches]
    if damaged:
        yield Finding(
            severity="error",
            check="replicas",
            where=node.name,
            found="damaged: " + named(f"{each.topic}-{each.partition} ({each.damage})" for each in damaged),
            advice="The broker repairs it from other replicas. If it does not, or it happens again, replace the disk.",
            docs=DAMAGE,
        )
    if not stored.offline and not lost and not damaged:
        yield Finding(severity="ok", check="replicas", where=node.name, found=f"{len(replicas):,} usable, none damaged")


def _damage(node: NodeFacts) -> Iterator[Finding]:
    if (count := node.metrics.total("raftlog_quarantined_logs")) > 0:
        yield quarantined(node.name, count)
    if (count := node.metrics.total("raftlog_refusing_replicas")) > 0:
        reasons = named(node.metrics.by_label("raftlog_refusing_replicas", "reason"))
        yield Finding(
            severity="error",
            check="replicas",
            where=node.name,
            found=f"{count:,.0f} refuse appends: {reasons}",
            advice="The disk is probably full: free space, or lower the retention of large topics.",
            docs=MONITOR,
        )


def quarantined(where: str, count: float) -> Finding:
    """Return the finding for damaged logs that were set aside."""
    return Finding(
        severity="warning",
        check="replicas",
        where=where,
        found=f"{count:,.0f} damaged logs are set aside (their names have .quarantined-)",
        advice="Look for the cause, mostly a failing disk. Delete them when nothing is to be recovered from them.",
        docs=DAMAGE,
    )


def _disks(node: NodeFacts) -> Iterator[Finding]:
    sizes = node.metrics.by_label("raftlog_disk_size_bytes", "folder")
    for folder, free in node.metrics.by_label("raftlog_disk_free_bytes", "folder").items():
        yield from check_space(f"{node.name}, {folder}", free, sizes.get(folder, 0))


def check_space(where: str, free: float, total: float) -> Iterator[Finding]:
    """Say how much space is free; without a size, nothing."""
    if total <= 0:
        return
    share = free / total
    severity: Severity = "error" if share < FREE_ERROR else "warning" if share < FREE_WARN else "ok"
    yield Finding(
        severity=severity,
        check="free space",
        where=where,
        found=f"{gigabytes(free)} of {gigabytes(total)} free ({share:.0%})",
        advice="" if severity == "ok" else "Lower the retention of large topics, move partitions, or enlarge the disk.",
        docs="" if severity == "ok" else "docs/how-to/grow-a-topic.md",
    )


def gigabytes(count: float) -> str:
    """Return bytes as text, as in `1.5 GB`."""
    for unit, size in (("TB", 1e12), ("GB", 1e9)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1e6:,.0f} MB"


def _process(node: NodeFacts) -> Iterator[Finding]:
    used, most = node.metrics.total("process_open_fds"), node.metrics.total("process_max_fds")
    if most > 0 and used / most > FILES_USED:
        yield Finding(
            severity="warning",
            check="open files",
            where=node.name,
            found=f"{used:,.0f} of {most:,.0f} that its process may open",
            advice="Raise the limit (ulimit -n, LimitNOFILE), or lower max_connections and max_open_segments.",
            docs="docs/how-to/run-in-production.md",
        )
    if (lag := node.metrics.total("raftlog_event_loop_lag_seconds")) > LOOP_LAG_S:
        yield Finding(
            severity="note",
            check="event loop",
            where=node.name,
            found=f"its longest turn within the last minute took {1_000 * lag:,.0f} ms",
            advice="The machine is busy, or the node's log names the stall.",
            docs=MONITOR,
        )
