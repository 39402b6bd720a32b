"""The checks of a node's files and of the machine on which it runs. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from raftlog.cli.doctor.address_checks import authorizer_finding, check_certificate
from raftlog.cli.doctor.facts import FileFacts, FolderFacts, MachineFacts, NodeSettings
from raftlog.cli.doctor.findings import Finding, Severity, failed, named
from raftlog.cli.doctor.node_checks import check_space, gigabytes, quarantined

WHERE = "this machine"
DOCS = "docs/how-to/check-a-cluster.md"
PRODUCTION = "docs/how-to/run-in-production.md"
SYNC_WARN_MS, SYNC_ERROR_MS = 20.0, 500.0
"""The median. The second one is the limit of the alert RaftlogSlowSyncs."""
SWAPPINESS = 10
_IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_REMOTE = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "fuse.s3fs", "ceph", "glusterfs"})
_LAYERS = frozenset({"overlay", "aufs"})
_OTHERS_READ, _GROUP_READS = 0o004, 0o040


def check_machine(facts: MachineFacts) -> list[Finding]:
    """Return what is found on a machine, and in a node's files."""
    findings = [finding for folder in facts.folders for finding in _folder(facts, folder)]
    findings += [finding for file in facts.files for finding in _file(facts.now_s, file)]
    findings += _settings(facts)
    findings += _limits(facts)
    findings += _memory(facts)
    findings += _congestion(facts)
    findings += [failed(what, WHERE, why) for what, why in facts.failures.items()]
    return findings


def _folder(facts: MachineFacts, folder: FolderFacts) -> Iterator[Finding]:
    if folder.error:
        yield Finding(
            severity="error",
            check="data folder",
            where=folder.path,
            found=folder.error,
            advice="Create it, or correct its owner and its permissions for the node's user.",
            docs=PRODUCTION,
        )
        return
    if folder.missing:
        found = "it does not exist yet; the node creates it, and the folder above was checked"
        yield Finding(severity="note", check="data folder", where=folder.path, found=found)
    if folder.owner is not None and facts.settings is not None:
        yield from _owner(folder, folder.owner, facts.settings)
    if folder.quarantined:
        yield quarantined(folder.path, folder.quarantined)
    yield from check_space(folder.path, folder.free_bytes, folder.total_bytes)
    yield from _filesystem(folder)
    yield from _syncs(folder)


def _owner(folder: FolderFacts, owner: tuple[str, int], settings: NodeSettings) -> Iterator[Finding]:
    if owner != (settings.cluster_id, settings.node_id):
        yield Finding(
            severity="error",
            check="data folder",
            where=folder.path,
            found=f"it belongs to node {owner[1]} of cluster {owner[0]}: the node refuses to start",
            advice="Correct data_dir, log_dirs, node_id or cluster_id in the node's settings.",
            docs="docs/reference/settings.md",
        )


def _filesystem(folder: FolderFacts) -> Iterator[Finding]:
    kind, why = folder.filesystem, ""
    severity: Severity = "ok"
    if kind in _IN_MEMORY:
        severity, why = "error", "it is in memory: a restart of the machine loses every record"
    elif kind in _REMOTE:
        severity, why = "warning", "syncs and locks depend on a server: a pause of it stops the node"
    elif kind in _LAYERS:
        severity, why = "warning", "it is a layer of a container: it is slow, and removed with the container"
    if kind:
        yield Finding(
            severity=severity,
            check="file system",
            where=folder.path,
            found=f"{kind}: {why}" if why else kind,
            advice="Use a local disk, or a volume of its own for each node." if why else "",
            docs=PRODUCTION if why else "",
        )


def _syncs(folder: FolderFacts) -> Iterator[Finding]:
    if folder.sync_error or not folder.sync_ms:
        why = folder.sync_error or "no sync ended before the deadline"
        found = f"4 KiB could not be written and synced: {why}"
        yield Finding(severity="warning", check="disk speed", where=folder.path, found=found, docs=DOCS)
        return
    usual, slowest = median(folder.sync_ms), max(folder.sync_ms)
    severity: Severity = "error" if usual >= SYNC_ERROR_MS else "warning" if usual >= SYNC_WARN_MS else "ok"
    yield Finding(
        severity=severity,
        check="disk speed",
        where=folder.path,
        found=f"a sync of 4 KiB takes {usual:.1f} ms, at most {slowest:.1f} ms of {len(folder.sync_ms)} tries",
        advice=""
        if severity == "ok"
        else "Each acknowledged batch waits for a sync: use an SSD, best with a cache "
        "that survives a loss of power. See which other program writes to the disk.",
        docs="" if severity == "ok" else "docs/explanation/performance.md",
    )


def _file(now_s: float, file: FileFacts) -> Iterator[Finding]:
    where = f"{file.setting} ({file.path})"
    if file.error:
        advice = "Correct the setting, the file or its permissions: the node needs it to start."
        found = file.error
        yield Finding(
            severity="error", check="files", where=where, found=found, advice=advice, docs="docs/reference/settings.md"
        )
        return
    if file.certificate_end_s is not None:
        yield from check_certificate(now_s, where, file.certificate_end_s)
        return
    readers = "every user of this machine" if file.mode & _OTHERS_READ else ""
    readers = readers or ("its group" if file.mode & _GROUP_READS else "")
    severity: Severity = "error" if file.mode & _OTHERS_READ else "note" if readers else "ok"
    yield Finding(
        severity=severity,
        check="key files",
        where=where,
        found=f"{readers or 'only its owner'} may read it (mode {file.mode & 0o7777:04o})",
        advice=f"chmod 0600 {file.path}: the key proves that a request is a node's." if readers else "",
        docs="docs/how-to/secure-the-ports.md" if readers else "",
    )


def _settings(facts: MachineFacts) -> Iterator[Finding]:
    if facts.settings_error:
        found = facts.settings_error
        yield Finding(severity="error", check="settings", where=WHERE, found=found, docs="docs/reference/settings.md")
    settings = facts.settings
    if settings is not None and settings.open_listeners and settings.authorizer != "acl":
        yield authorizer_finding("the node's settings", settings.authorizer, settings.open_listeners)


def _limits(facts: MachineFacts) -> Iterator[Finding]:
    settings = facts.settings
    if settings is None or not settings.nofile_wanted or facts.nofile == 0:
        return
    is_enough = facts.nofile < 0 or facts.nofile >= settings.nofile_wanted
    most = "no limit" if facts.nofile < 0 else f"a limit of {facts.nofile:,}"
    yield Finding(
        severity="ok" if is_enough else "warning",
        check="open files",
        where=WHERE,
        found=f"{most} here; the settings allow {settings.nofile_wanted:,} connections, segments and other files",
        advice="" if is_enough else "Raise the hard limit (ulimit -Hn, LimitNOFILE): the node takes fewer connections.",
        docs="" if is_enough else PRODUCTION,
    )


def _memory(facts: MachineFacts) -> Iterator[Finding]:
    wanted = 0 if facts.settings is None else facts.settings.memory_wanted
    if facts.memory_bytes > 0:
        is_little = facts.memory_bytes < wanted
        yield Finding(
            severity="warning" if is_little else "ok",
            check="memory",
            where=WHERE,
            found=f"{gigabytes(facts.memory_bytes)}"
            + (f"; the node's buffers may take {gigabytes(wanted)}" if wanted else ""),
            advice="Add memory, or lower max_inflight_bytes, max_streams and log_cleaner_dedupe_buffer_bytes."
            if is_little
            else "",
            docs="docs/reference/settings.md" if is_little else "",
        )
    if facts.cpus:
        severity: Severity = "note" if facts.cpus < 2 else "ok"
        advice = "A node uses one, and its worker threads another." if facts.cpus < 2 else ""
        yield Finding(severity=severity, check="CPUs", where=WHERE, found=f"{facts.cpus} usable", advice=advice)
    if facts.swap_bytes > 0 and facts.swappiness > SWAPPINESS:
        yield Finding(
            severity="warning",
            check="swap",
            where=WHERE,
            found=f"{gigabytes(facts.swap_bytes)} of swap, and vm.swappiness is {facts.swappiness}: a node that is "
            "paged out stalls, and loses its leaderships",
            advice="sysctl -w vm.swappiness=1, or disable swap.",
            docs=DOCS,
        )
    elif facts.swappiness >= 0:
        found = (
            f"{gigabytes(facts.swap_bytes)} of swap, vm.swappiness {facts.swappiness}" if facts.swap_bytes else "off"
        )
        yield Finding(severity="ok", check="swap", where=WHERE, found=found)


def _congestion(facts: MachineFacts) -> Iterator[Finding]:
    default = facts.congestion
    if not default:
        return
    if not default.startswith("bbr"):
        yield Finding(severity="ok", check="congestion control", where=WHERE, found=default)
    elif "reno" in facts.congestions:
        found = f"{default} paces what is sent; nodes select reno for connections within a machine"
        yield Finding(severity="note", check="congestion control", where=WHERE, found=found, docs=DOCS)
    else:
        yield Finding(
            severity="warning",
            check="congestion control",
            where=WHERE,
            found=f"{default} paces what is sent, and reno is not allowed here ({named(facts.congestions)}): "
            "connections within a machine have about half of their throughput",
            advice="Add reno to net.ipv4.tcp_allowed_congestion_control, or choose cubic as the default.",
            docs=DOCS,
        )
