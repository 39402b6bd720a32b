"""Bits that change on all brokers' disks, with one intact copy of each batch: every batch must be repaired."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from chaos.run import Run
from raftlog.errors import CorruptBatchError
from raftlog.record import iter_batches

ROUNDS = 3
SHARE = 0.05
MOST_PLACES = 200
Place = tuple[str, Path, int, int]
"""The position of a batch: broker, file, first byte, length in bytes."""


async def rot(run: Run) -> None:
    """Damage batches on every broker, while all of them run and while all are down; no record may be lost."""
    await run.warm_up()
    run.cluster.disk_faults = True
    flipped = 0
    for _ in range(ROUNDS):
        await run.load(200)
        with run.fault("rot", "all", *run.brokers) as fault:
            fault.detail = f"{await _rot_apart(run)} places, running"
            await run.load(50)
        await run.site.until_well()
        await run.site.find_damage()
        with run.fault("SIGKILL", "all", *run.brokers), run.fault("rot", "all", *run.brokers) as fault:
            await run.cluster.kill(*run.brokers)
            places = await _rot_apart(run)
            fault.detail = f"{places} places, down"
            flipped += places
            await run.cluster.restart(*run.brokers)
        await run.site.until_well()
        await run.site.find_damage()
    run.figures["damaged_while_down"] = flipped
    run.figures["put_aside"] = sum(
        len(list((run.cluster.data_dir(name) / "partitions").glob("*.quarantined-*"))) for name in run.brokers
    )


async def _rot_apart(run: Run) -> int:
    return await asyncio.to_thread(rot_apart, {name: run.cluster.data_dir(name) for name in run.brokers}, run.dice)


def rot_apart(folders: dict[str, Path], dice: random.Random) -> int:
    """Flip a bit in some batches of several brokers, never in the last copy of one; return in how many batches.

    Brokers may run meanwhile: a segment that retention deletes is skipped.
    """
    copies = defaultdict[bytes, list[Place]](list)
    for name, folder in folders.items():
        for path in sorted(folder.glob("partitions/*/*.log")):
            if ".quarantined-" not in path.parent.name:
                for batch, place in _batches(name, path):
                    copies[batch].append(place)
    damaged = 0
    chosen = [places for places in copies.values() if len(places) > 1 and dice.random() < SHARE]
    dice.shuffle(chosen)
    for places in chosen[:MOST_PLACES]:
        spared = dice.choice(places)
        for place in places:
            if place is not spared and dice.random() < 0.7:
                with suppress(FileNotFoundError):
                    _flip(place, dice)
                    damaged += 1
    return damaged


def _batches(name: str, path: Path) -> list[tuple[bytes, Place]]:
    found, position = list[tuple[bytes, Place]](), 0
    try:
        for header, batch in iter_batches(path.read_bytes()):
            found.append((path.parent.name.encode() + bytes(batch), (name, path, position, header.batch_length)))
            position += header.batch_length
    except (CorruptBatchError, FileNotFoundError):
        pass  # Damaged before, being written, or deleted.
    return found


def _flip(place: Place, dice: random.Random) -> None:
    _, path, position, length = place
    at = position + dice.randrange(length)
    with path.open("r+b") as opened:
        opened.seek(at)
        byte = opened.read(1)[0]
        opened.seek(at)
        opened.write(bytes([byte ^ (1 << dice.randrange(8))]))
