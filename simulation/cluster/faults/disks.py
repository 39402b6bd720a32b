"""Disks that end their process in the middle of anything, fail, fill up, lose data, rot, or are slow."""

from __future__ import annotations

import asyncio
import errno

from simulation.cluster.disk import Fuse
from simulation.cluster.faults.hands import Hands, fault, later_fault
from simulation.cluster.workload import TOPIC

LONGEST_FUSE = 30
"""The number of system calls before a fault in the middle of one, at most."""
SYNC_ERRORS = (errno.EIO, errno.ENOSPC, errno.EDQUOT)
"""The errors of a sync on a failed device, on a full file system and above a quota."""
ROTTING = (".log", ".log", ".log", ".index", "leader-epochs.json", "checkpoint.json")


@fault
def fuse_kill(hands: Hands) -> None:
    """A process is killed in the middle of an operation."""
    _light(hands, "kill")


@fault
def fuse_power(hands: Hands) -> None:
    """A machine loses its power in the middle of an operation."""
    _light(hands, "power")


def _light(hands: Hands, kind: Fuse) -> None:
    node = hands.somebody()
    if hands.may_go_down(node):
        hands.note(f"{kind} at one of the next operations of {node.name}'s disk")
        hands.world.disks.by_host[node.host].fuse = (hands.dice.randint(1, LONGEST_FUSE), kind)
        hands.restart_later(node)


@fault
def fuse_error(hands: Hands) -> None:
    """A disk fails and is replaced, so it may fail only where no record is lost with it."""
    node = hands.somebody()
    if not hands.may_lose(node):
        return
    hands.note(f"the disk of {node.name} will fail")
    disk = hands.world.disks.by_host[node.host]
    disk.fuse = (hands.dice.randint(1, LONGEST_FUSE), "error")

    async def repair() -> None:
        while disk.fuse is not None and node.running:
            await asyncio.sleep(0.2)
        hands.note(f"the disk of {node.name} works again")
        if node.running:
            hands.world.kill(node)
        disk.failing = False
        disk.fuse = None
        if not node.running:
            hands.world.start(node)

    hands.later(repair)


@fault
def sync_error(hands: Hands) -> None:
    """One sync fails, and later ones do not: the process must exit."""
    node = hands.somebody()
    if hands.may_lose(node):
        number = hands.dice.choice(SYNC_ERRORS)
        hands.note(f"one sync of {node.name} will fail: {errno.errorcode[number]}")
        hands.world.disks.by_host[node.host].sync_errno = number
        hands.restart_later(node)


@fault
def disk_full(hands: Hands) -> None:
    """The disk is full, for a while."""
    node = hands.anybody()
    disk = hands.world.disks.by_host[node.host]
    hands.note(f"the disk of {node.name} is full")
    disk.full = disk.was_full = True

    def free() -> None:
        disk.full = False
        hands.note(f"the disk of {node.name} has room")
        if not node.running:
            hands.world.start(node)

    hands.later(free)


@fault
def lost_disk(hands: Hands) -> None:
    """A broker restarts with an empty disk."""
    node = hands.somebody()
    if node.running and hands.may_lose(node):
        hands.world.lose_power(node)
        hands.world.replace_disk(node)
        hands.restart_later(node)


@fault
def rot(hands: Hands) -> None:
    """A bit of a broker's files changes, in the log or beside it."""
    node = hands.dice.choice(hands.world.brokers)
    suffix = hands.dice.choice(ROTTING)
    if hands.may_lose(node) and (where := hands.world.disks.rot(node.host, suffix, hands.dice)) is not None:
        hands.note(f"a bit of {node.name} changes: {where}")
        node.rotten = True


@fault
def slow_disk(hands: Hands) -> None:
    """All work in threads takes long."""
    node = hands.anybody()
    process = node.process
    if process is None:
        return
    usual, process.thread_s = process.thread_s, (0.05, hands.dice.choice((0.3, 1.5)))
    hands.note(f"slow disk of {node.name}")
    hands.later(lambda: setattr(process, "thread_s", usual))


@later_fault
def no_descriptor(hands: Hands) -> None:
    """A broker can open no file for a while. It must run on."""
    node = hands.dice.choice(hands.world.brokers)
    process, disk = node.process, hands.world.disks.by_host[node.host]
    if process is None or not process.alive or node.broker is None or node.broker.lifecycle.broker_epoch < 0:
        return
    hands.note(f"{node.name} has no free descriptor")
    disk.starved = True

    def free() -> None:
        if node.process is process and disk.starved:
            hands.note(f"{node.name} has free descriptors")
            disk.starved = False

    hands.later(free)


@later_fault
def no_inode(hands: Hands) -> None:
    """A machine can make no file and no folder for a while. Existing files can be written."""
    node = hands.anybody()
    disk = hands.world.disks.by_host[node.host]
    hands.note(f"{node.name} has no free inode")
    disk.crowded = disk.was_full = True

    def free() -> None:
        disk.crowded = False
        hands.note(f"{node.name} has free inodes")
        if not node.running:
            hands.world.start(node)

    hands.later(free)


@later_fault
def unreadable_block(hands: Hands) -> None:
    """A block of a log cannot be read any more. Its batches have intact copies: all are repaired. No broker ends."""
    node = hands.dice.choice(hands.world.brokers)
    if hands.may_lose(node) and (
        where := hands.world.disks.spoil(node.host, f"partitions/{TOPIC}-*/*.log", hands.dice)
    ):
        hands.note(f"a block of {node.name} cannot be read: {where}")
        node.spotted = True
