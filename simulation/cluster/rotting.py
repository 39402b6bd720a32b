"""Bits that change on all disks, with one intact copy of each batch: no record may be lost."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

from raftlog.errors import CorruptBatchError, RaftlogError
from raftlog.partition.storage.batch_scan import find_sound_header
from raftlog.partition.storage.checkpoint import Checkpoint
from raftlog.partition.storage.segment import SUFFIX
from raftlog.record import iter_batches
from raftlog.record.batch import verify_payload_crc
from simulation.cluster.nodes import Node
from simulation.cluster.world import World

Place = tuple[Node, Path, int, int]
"""The position of a batch: node, file, first byte, length in bytes."""
MOST_PLACES = 60


def rot_apart(world: World, dice: random.Random, share: float) -> int:
    """Flip a bit in about this share of all batches, never in the last copy of one; return in how many.

    The intact copy is on a disk that keeps it: a broker that a reassignment has removed deletes its replica.
    Only synced bytes are damaged: after a loss of power, damage to other bytes cannot be told apart from a torn write.
    In half of the seeds, those above the checkpoint of a process that was only killed may be damaged, too.
    """
    above = random.Random(str(dice.getstate())).random() < 0.5  # noqa: S311
    copies = defaultdict[bytes, list[Place]](list)
    for node in world.brokers:
        for path in sorted(node.folder.rglob(f"*{SUFFIX}")):
            for batch, place in _batches(node, path, above_checkpoint=above and node.was_killed and not node.running):
                copies[batch].append(place)
    damaged = 0
    for places in copies.values():
        if damaged >= MOST_PLACES or dice.random() >= share or len({place[0].name for place in places}) < 2:
            continue
        staying = [node for node, path, _, _ in places if _is_assigned(world, node, path.parent.name)]
        if not staying:
            continue
        spared = dice.choice(staying)
        folder = places[0][1].parent.name
        world.spared[folder] = world.spared.get(folder, frozenset()) | {spared.node_id}
        for node, path, position, length in places:
            if node is not spared and dice.random() < 0.7:
                world.disks.flip(node.host, path, position + dice.randrange(length), 1 << dice.randrange(8))
                node.spotted = True
                damaged += 1
    world.note(f"{damaged} batches are damaged, each with an intact copy on another disk")
    return damaged


def _is_assigned(world: World, node: Node, folder: str) -> bool:
    """Return whether a broker keeps its replica in a folder: the newest image assigns it, and does not remove it."""
    for topic, partition, state in world.newest_image().partitions():
        if folder.startswith(f"{topic.topic}-{partition}-{topic.topic_id}"):
            return node.node_id in set(state.replicas) - set(state.removing)
    return False


def rotten_logs(world: World) -> list[Path]:
    """Return the segments in use, of any topic, that contain damage."""
    return [
        path
        for node in world.brokers
        for path in sorted(node.folder.rglob(f"partitions/*/*{SUFFIX}"))
        if "." not in path.parent.name and _is_rotten(path)
    ]


def _is_rotten(path: Path) -> bool:
    try:
        for header, batch in iter_batches(path.read_bytes()):
            verify_payload_crc(header, batch)
    except CorruptBatchError:
        return True
    except OSError:
        return False  # It was deleted.
    return False


def _batches(node: Node, path: Path, *, above_checkpoint: bool) -> list[tuple[bytes, Place]]:
    """Return the intact batches of a file, also those behind damaged ones.

    Args:
        above_checkpoint: also those above the recovery point.
    """
    try:
        point = Checkpoint.load(path.parent).recovery_point
    except RaftlogError:
        return []
    data, found, position = path.read_bytes(), list[tuple[bytes, Place]](), 0

    def read(length: int, at: int) -> bytes:
        return data[at : at + length]

    while (sound := find_sound_header(read, position, len(data), min_offset=0)) is not None:
        position, header = sound
        if header.next_offset > point and not above_checkpoint:
            break
        key = str(path.parent.name).encode() + read(header.batch_length, position)
        found.append((key, (node, path, position, header.batch_length)))
        position += header.batch_length
    return found
