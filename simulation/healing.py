"""The end of a history: every fault ends; then there must be progress, and no acknowledged entry may be lost."""

from __future__ import annotations

from collections.abc import Iterable

from simulation.world import World

HEAL_S = 30.0


def heal(world: World) -> None:
    """Require progress with a bare majority, then with all voters, and every acknowledged entry at every voter."""
    world.note("heal")
    world.promises.logs_match(world.engines)
    absent = _absent(world)
    world.calm()
    for name in absent & world.engines.keys():
        world.crash(name, power=True)
    if absent:
        world.note(f"without {sorted(absent)}")
        _progress(world, set(world.names) - absent)
    _everybody_takes_part(world)
    if world.rot.happens:
        _catch_up_from_damaged_snapshots(world)
        _scrub(world)
    if world.settings.rejoins:
        _cut_off_and_back(world)
    if world.settings.replaces:
        _replace_a_disk(world)
    world.promises.kept_everywhere(world.machines)
    world.promises.logs_match(world.engines)


def _absent(world: World) -> set[str]:
    """Choose the voters that stay down at first: no majority may need a voter that has lost its memory."""
    most = (len(world.names) - 1) // 2
    if unable := world.not_full | world.rot.unable():
        return unable if len(unable) <= most else set()
    return set(world.random.sample(world.names, world.random.randint(0, most)))


def _progress(world: World, names: Iterable[str]) -> None:
    """Require that these voters, a majority, acknowledge more entries."""
    before, deadline = len(world.promises.acknowledged), world.now + HEAL_S
    while len(world.promises.acknowledged) < before + 3:
        if world.now > deadline:
            world.promises.fail(f"no progress within {HEAL_S:g} s of healing {', '.join(sorted(names))}")
        for name in sorted(names):
            if name in world.rot.refusing:
                world.rot.repair(name)
            if name not in world.engines:
                world.start(name)
        if believers := world.believers():
            world.propose(world.random.choice(believers))
        world.run(0.1)


def _everybody_takes_part(world: World) -> None:
    """Require progress, and that every voter is running and full."""
    deadline = world.now + HEAL_S
    _progress(world, world.names)
    while world.not_full or len(world.engines) < len(world.names):
        if world.now > deadline:
            world.promises.fail(f"{', '.join(sorted(world.not_full))}: not full within {HEAL_S:g} s of healing")
        _progress(world, world.names)
    world.run(2.0)


def _catch_up_from_damaged_snapshots(world: World) -> None:
    """A voter that needs a snapshot gets an intact one, though every snapshot on a disk is damaged."""
    world.promises.kept_everywhere(world.machines)
    guest = world.rot.damage_snapshots()
    world.wipe(guest)
    world.start(guest)
    _everybody_takes_part(world)
    world.promises.kept_everywhere(world.machines)


def _scrub(world: World) -> None:
    """A voter's scrubbed files are intact, so that all voters can start again."""
    for name in world.names:
        world.rot.scrub(name)
        world.crash(name, power=True)
    _progress(world, world.names)
    world.run(2.0)


def _cut_off_and_back(world: World) -> None:
    """A voter that was cut off reconnects: the leader stays leader, in its term."""
    leader = world.leader()
    if leader is None:
        world.promises.fail("no voter leads after every fault has ended")
        return
    term = world.engines[leader].term
    guest = world.random.choice([name for name in world.names if name != leader])
    for change in (world.network.part, world.network.rejoin):
        for other in world.names:
            if other != guest:
                change(guest, other)
        world.run(1.0)
    if world.leader() != leader or world.engines[leader].term != term:
        world.promises.fail(f"{guest} reconnected, and {leader} does not lead term {term} any more")


def _replace_a_disk(world: World) -> None:
    """A voter without a memory waits for an answer of every other voter, while the others make progress."""
    guest, far = world.random.sample(world.names, 2)
    world.wipe(guest)
    world.network.part(guest, far)
    world.start(guest)
    _progress(world, set(world.names) - {guest})
    world.run(2.0)
    if guest not in world.not_full:
        world.promises.fail(f"{guest} is full again without an answer of {far}")
    world.network.rejoin(guest, far)
    _everybody_takes_part(world)
