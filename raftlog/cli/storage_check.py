"""Checks a stopped node's data folder: the node's own files, every partition, and the quorum's journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from raftlog.errors import RaftlogError
from raftlog.partition.storage.data_dir import QUARANTINED, stored_partitions
from raftlog.partition.storage.files import read_json
from raftlog.partition.storage.fsck import Finding, check_partition

META_FIELDS = ("version", "cluster_id", "node_id", "storage_id")


def total_bytes(folder: Path) -> int:
    """Return the size of all segments, for a progress bar."""
    return sum(path.stat().st_size for path in folder.glob("partitions/*/*.log"))


def check_data_folder(folder: Path, on_bytes: Callable[[int], None]) -> Iterator[Finding]:
    """Yield the findings in a data folder, file after file."""
    yield from _check_json(folder / "meta.json", META_FIELDS)
    if (folder / "run.json").exists():
        yield from _check_json(folder / "run.json", ("boot_id", "clean"))
    if (folder / "partitions").is_dir():
        for stored in stored_partitions(folder / "partitions"):
            yield from check_partition(stored.folder, on_bytes)
        for aside in sorted((folder / "partitions").glob(f"*{QUARANTINED}*")):
            yield Finding(str(aside), "note", "is a damaged log that was put aside")
    if (folder / "quorum").is_dir():
        yield from _check_quorum(folder / "quorum")


def _check_json(path: Path, fields: tuple[str, ...]) -> Iterator[Finding]:
    try:
        document = read_json(path)
    except RaftlogError as error:
        yield Finding(str(path), "damage", error.message)
        return
    if document is None:
        yield Finding(str(path), "damage", "is missing")
    elif missing := [name for name in fields if name not in document]:
        yield Finding(str(path), "damage", f"lacks {', '.join(missing)}")


def _check_quorum(folder: Path) -> Iterator[Finding]:
    from raftlog.metadata_quorum.raft.frames import read_valid_records  # noqa: PLC0415  (only controllers need PySyncObj)
    from raftlog.metadata_quorum.raft.snapshots import check_snapshot  # noqa: PLC0415

    journal, snapshot = folder / "raft.journal", folder / "snapshot"
    if journal.exists():
        try:
            valid = read_valid_records(journal)
            if (end := len(valid.content)) < valid.size:
                yield Finding(str(journal), "note", f"has a torn tail after byte {end}; the next start cuts it")
        except (RaftlogError, OSError) as error:
            yield Finding(str(journal), "damage", str(error))
    if snapshot.exists():
        try:
            check_snapshot(snapshot)
        except (RaftlogError, OSError, ValueError) as error:
            yield Finding(str(snapshot), "damage", str(error))
