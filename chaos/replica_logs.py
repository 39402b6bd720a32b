"""Reads replicas' logs from their files, with the project's own reading code, once their processes have exited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from chaos.history import ReplicaLog, StoredBatch
from raftlog.errors import CorruptBatchError
from raftlog.partition.storage.batch_scan import scan_batches
from raftlog.partition.storage.data_dir import stored_partitions
from raftlog.partition.storage.fsck import reading
from raftlog.partition.storage.recovery import segment_bases
from raftlog.partition.storage.segment import segment_path
from raftlog.record.reading import read_records


def read_replicas(data_dirs: Mapping[str, Path], topic: str, in_sync: Mapping[int, set[str]]) -> Iterator[ReplicaLog]:
    """Read every replica of a topic. One that is in sync and has no log is returned as an empty log.

    Args:
        data_dirs: by broker.
        in_sync: by partition, the brokers that were in sync when they exited.
    """
    for broker, data_dir in data_dirs.items():
        absent = {partition for partition, brokers in in_sync.items() if broker in brokers}
        for stored in stored_partitions(data_dir / "partitions"):
            if stored.topic == topic:
                absent.discard(stored.partition)
                yield _read(broker, stored.partition, stored.folder, broker in in_sync.get(stored.partition, ()))
        for partition in sorted(absent):
            yield ReplicaLog(broker=broker, partition=partition, in_sync=True, batches=())


def _read(broker: str, partition: int, folder: Path, in_sync: bool) -> ReplicaLog:
    batches, damage = list[StoredBatch](), ""
    try:
        for base in segment_bases(file.name for file in folder.iterdir()):
            batches += _batches(segment_path(folder, base))
    except CorruptBatchError as error:
        damage = error.message
    return ReplicaLog(broker=broker, partition=partition, in_sync=in_sync, batches=tuple(batches), damage=damage)


def _batches(segment: Path) -> Iterator[StoredBatch]:
    with reading(segment) as (read, size):
        for position, header in scan_batches(read, 0, size, verify=True, name=segment.name):
            batch = read(header.batch_length, position)
            records = read_records(batch, topic="", partition=0, from_offset=header.base_offset)
            yield StoredBatch(
                base_offset=header.base_offset,
                leader_epoch=header.leader_epoch,
                crc=header.payload_crc32c,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
                values=tuple((record.value or b"").decode("utf-8", "replace") for record in records),
            )
