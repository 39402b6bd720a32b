"""Repair in place: which bytes may be written where, and an interrupted repair leaves known damage."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from storage_support import batch, fill, open_log, values

from raftlog.errors import DamagedDataError, DiskFullError
from raftlog.model import NO_LEADER_EPOCH
from raftlog.partition.core.repair import Accepted, DamagedBatch, accept
from raftlog.partition.storage import log_start
from raftlog.partition.storage.checkpoint import Checkpoint
from raftlog.partition.storage.files import write_json
from raftlog.partition.storage.log_start import drop_deleted, move_log_start
from raftlog.partition.storage.repair import ClosedLog, OpenLog, RepairTarget
from raftlog.partition.storage.repair_source import find_batches
from raftlog.record.batch import parse_header
from raftlog.wire.repair import Holding

COUNT = 12
SECTOR = 512


def segment(folder: Path) -> Path:
    (path,) = folder.glob("*.log")
    return path


def filled(folder: Path, *, size: int = 700) -> bytes:
    """Make a log without a checkpoint; return its bytes."""
    log = open_log(folder)
    fill(log, COUNT, size=size)
    log.fsync()
    log.close()
    return segment(folder).read_bytes()


def damage(path: Path, whole: bytes, *places: int) -> None:
    content = bytearray(whole)
    for place in places:
        content[place] ^= 4
    path.write_bytes(content)


def mend(target: RepairTarget, source: Path) -> int:
    """Repair everything from another folder; return how many places were written."""
    written = 0
    while (found := target.find()) is not None:
        holding, data = find_batches([source], found.offset, found.leader_epoch, 1 << 20)
        assert holding is Holding.WHOLE
        accepted = accept(found, data)
        assert accepted is not None
        assert target.write(found, accepted)
        written += 1
    return written


SHAPES: dict[str, Callable[[bytes, int], bytes]] = {
    "payload": lambda whole, length: flipped(whole, 3 * length + 100),
    "header": lambda whole, length: flipped(whole, 3 * length + 2),
    "length": lambda whole, length: flipped(whole, 3 * length + 9),
    "first": lambda whole, _: flipped(whole, 70),
    "several": lambda whole, length: flipped(whole, *(n * length + 8 * n for n in (1, 4, 5, 9))),
    "zeros over three batches": lambda whole, length: (
        whole[: 2 * length + 60] + bytes(2 * length) + whole[4 * length + 60 :]
    ),
    "shorter, inside a batch": lambda whole, length: whole[: 7 * length + 33],
    "shorter, between batches": lambda whole, length: whole[: 7 * length],
    "empty": lambda _, __: b"",
}


def flipped(whole: bytes, *places: int) -> bytes:
    content = bytearray(whole)
    for place in places:
        content[place] ^= 4
    return bytes(content)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_log_that_cannot_be_opened_is_repaired_byte_for_byte(shape: str, tmp_path: Path):
    folder, source = tmp_path / "damaged", tmp_path / "source"
    whole = filled(folder)
    assert filled(source) == whole
    log = open_log(folder)
    log.checkpoint(COUNT)
    log.close()
    for index in folder.glob("*.index"):
        index.unlink()  # Or nothing below the recovery point would be read.
    segment(folder).write_bytes(SHAPES[shape](whole, len(whole) // COUNT))

    for _ in range(COUNT):
        try:
            log = open_log(folder)
        except DamagedDataError as error:
            mend(ClosedLog(folder, error.details.get("damaged_at"), compacts=False), source)
            continue
        found = OpenLog(log, [0], compacts=False)
        mend(found, source)
        break
    assert segment(folder).read_bytes() == whole
    assert values(log) == [str(n) for n in range(COUNT)]


@pytest.mark.parametrize("shape", ["payload", "header", "length", "first", "several", "zeros over three batches"])
def test_a_log_that_is_in_use_is_repaired_while_it_grows(shape: str, tmp_path: Path):
    folder, source = tmp_path / "damaged", tmp_path / "source"
    whole = filled(folder)
    filled(source)
    log = open_log(folder)
    segment(folder).write_bytes(SHAPES[shape](whole, len(whole) // COUNT))
    target = OpenLog(log, [3], compacts=False)
    assert target.find() is not None
    log.append(batch(COUNT, "more"))
    assert mend(target, source) > 0
    assert segment(folder).read_bytes()[: len(whole)] == whole
    assert values(log) == [*(str(n) for n in range(COUNT)), "more"]


def test_a_table_of_epochs_from_before_a_loss_of_power_is_not_believed_against_the_batches_around(tmp_path: Path):
    folder, source = tmp_path / "log", tmp_path / "source"
    log = open_log(folder)
    for offset in range(8):
        log.append(batch(offset, "v" * 300, epoch=0 if offset < 3 else 4))
    log.fsync()
    log.close()
    shutil.copytree(folder, source)
    whole = segment(folder).read_bytes()
    length = len(whole) // 8
    write_json(folder / "leader-epochs.json", {"version": 1, "epochs": [[0, 0]]})

    damage(segment(folder), whole, 5 * length + 8)
    assert mend(ClosedLog(folder, 5, compacts=False), source) == 1
    assert segment(folder).read_bytes() == whole

    # Where the epochs part, only a table with the epoch of the batch that follows can tell: it has all earlier ones.
    for table, epoch in (([[0, 0]], NO_LEADER_EPOCH), ([], NO_LEADER_EPOCH), ([[0, 0], [4, 3]], 4)):
        write_json(folder / "leader-epochs.json", {"version": 1, "epochs": table})
        damage(segment(folder), whole, 3 * length + 8)
        assert ClosedLog(folder, 3, compacts=False).find().leader_epoch == epoch
        assert mend(ClosedLog(folder, 3, compacts=False), source) == 1
        assert segment(folder).read_bytes() == whole


def test_a_batch_where_epochs_part_is_repaired_from_a_log_that_ends_with_it(tmp_path: Path):
    """The other log cannot lead up to the batch that follows the damage, so the epoch table tells the epoch."""
    folder, source = tmp_path / "log", tmp_path / "source"
    for path, count in ((folder, 6), (source, 4)):
        log = open_log(path)
        for offset in range(count):
            log.append(batch(offset, "v" * 300, epoch=(0, 0, 0, 1, 4, 4)[offset]))
        log.fsync()
        log.close()
    whole = segment(folder).read_bytes()
    damage(segment(folder), whole, 3 * (len(whole) // 6) + 8)
    assert mend(ClosedLog(folder, 3, compacts=False), source) == 1
    assert segment(folder).read_bytes() == whole


@pytest.mark.parametrize("which", [0, 1, 2, 3, 5, 11])
def test_without_a_table_of_epochs_the_batches_around_say_of_which_epoch_the_damaged_one_is(which: int, tmp_path: Path):
    """Also at the edges of segments, where one of them lies in another file."""
    folder, source = tmp_path / "log", tmp_path / "source"
    log = open_log(folder, segment_bytes=4_096)
    fill(log, COUNT, size=700)
    log.fsync()
    log.close()
    paths = sorted(folder.glob("*.log"))
    assert len(paths) == 4
    shutil.copytree(folder, source)
    per_file = COUNT // len(paths)
    path, length = paths[which // per_file], paths[0].stat().st_size // per_file
    damage(path, path.read_bytes(), which % per_file * length + 8, which % per_file * length + 21)
    (folder / "leader-epochs.json").write_bytes(b"{")
    if which == COUNT - 1:  # Nothing comes after it: it may be of any later epoch.
        assert ClosedLog(folder, which, compacts=False).find().leader_epoch == NO_LEADER_EPOCH
        return
    assert mend(ClosedLog(folder, which, compacts=False), source) == 1
    assert [path.read_bytes() for path in paths] == [(source / path.name).read_bytes() for path in paths]


def torn_writes(draw: random.Random) -> Callable[[int, bytes, int], int]:
    """Return a write that ends the process, of which some sectors reach the log; others hold zeros, as new pages do."""
    real = os.pwrite

    def pwrite(descriptor: int, content: bytes, position: int) -> int:
        if Path(f"/proc/self/fd/{descriptor}").readlink().suffix != ".log":
            return real(descriptor, content, position)
        for start in range(0, len(content), SECTOR):
            piece = bytes(content[start : start + SECTOR])
            real(descriptor, piece if draw.random() < 0.4 else bytes(len(piece)), position + start)
        raise KeyboardInterrupt

    return pwrite


@pytest.mark.parametrize("is_open", [False, True])
def test_a_power_cut_during_a_repair_leaves_known_damage(
    is_open: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Whichever sectors were written, none of the others is lost: a torn tail would be cut after a power cut."""
    source = tmp_path / "source"
    whole = filled(source)
    length = len(whole) // COUNT
    for seed in range(20):
        draw, folder = random.Random(seed), tmp_path / str(seed)
        filled(folder)
        log = open_log(folder) if is_open else None
        damage(segment(folder), whole, 5 * length + 100)
        target: RepairTarget = (
            OpenLog(log, [5], compacts=False) if log is not None else ClosedLog(folder, 5, compacts=False)
        )
        found = target.find()
        assert found is not None

        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", torn_writes(draw))
            with pytest.raises(KeyboardInterrupt):
                target.write(found, Accepted(whole[5 * length : 6 * length], 6))
        if log is not None:
            log.close()

        assert segment(folder).stat().st_size == len(whole)
        try:
            log = open_log(folder, power_lost=True)
        except DamagedDataError:
            assert mend(ClosedLog(folder, 5, compacts=False), source)
            log = open_log(folder, power_lost=True)
        assert log.log_end_offset == COUNT, seed
        mend(OpenLog(log, [5], compacts=False), source)  # Payloads below the recovery point are looked at when read.
        assert segment(folder).read_bytes() == whole
        log.close()


def place(whole: bytes, **change: object) -> DamagedBatch:
    header = parse_header(whole)
    known = DamagedBatch(
        position=0,
        offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        header=header,
        end_position=None,
        end_offset=None,
        unsound_bytes=1 << 20,
        exact_fit=False,
    )
    return replace(known, **change)  # type: ignore[arg-type]


def test_only_what_belongs_there_is_accepted():
    right, after = batch(5, "right", epoch=2), batch(6, "after", epoch=3)
    assert accept(place(right), right + after) == Accepted(right, 6)
    unknown = place(right, header=None)
    assert accept(unknown, right + after) == Accepted(right, 6), "no epoch 3 is known to begin within the damage"
    assert accept(replace(unknown, later_epochs=((3, 6),)), right + after) == Accepted(right + after, 7)
    for wrong in (
        batch(5, "other", epoch=2),
        batch(4, "right", epoch=2),
        batch(5, "right", epoch=3),
        flipped(right, 66),
        flipped(right, 5),
        right[:-8],
        b"",
        b"x" * 1_000,
    ):
        assert accept(place(right), wrong) is None
    assert accept(unknown, batch(5, "right", epoch=3)) is None
    assert accept(unknown, batch(4, "right", epoch=2)) is None
    assert accept(unknown, flipped(right, 66)) is None


def test_what_follows_the_first_batch_is_taken_as_far_as_there_is_room_for_it_and_it_continues():
    first, second, third = batch(5, "a", epoch=2), batch(6, "b", epoch=2), batch(7, "c", epoch=2)
    unknown, length = place(first, header=None), len(first)
    assert accept(replace(unknown, unsound_bytes=2 * length), first + second + third) == Accepted(first + second, 7)
    assert accept(replace(unknown, unsound_bytes=8), first + second) == Accepted(first, 6)
    assert accept(unknown, first + third) == Accepted(first, 6)
    assert accept(unknown, first + batch(6, "b", epoch=1)) == Accepted(first, 6)
    assert accept(replace(unknown, end_position=length), first + second) == Accepted(first, 6)
    assert accept(replace(unknown, end_position=length - 8), first) is None
    assert accept(replace(unknown, end_offset=6), first + second) == Accepted(first, 6)
    assert accept(unknown, first + flipped(second, 70)) == Accepted(first, 6)


def test_after_the_first_batch_too_each_must_have_the_epoch_that_was_there():
    first, second, third = batch(5, "a", epoch=2), batch(6, "b", epoch=3), batch(7, "c", epoch=3)
    known = place(first, header=None, later_epochs=((3, 6), (4, 9)))
    assert accept(known, first + second + third) == Accepted(first + second + third, 8)
    assert accept(known, first + batch(6, "never committed", epoch=2)) == Accepted(first, 6)
    assert accept(known, first + second + batch(7, "d", epoch=4)) == Accepted(first + second, 7)
    assert accept(replace(known, exact_fit=True, end_offset=7), first + batch(6, "d", epoch=2)) is None


@pytest.mark.parametrize("is_open", [False, True])
def test_a_log_that_has_diverged_amid_the_damage_repairs_only_what_is_before(is_open: bool, tmp_path: Path):
    folder, diverged, whole_one = tmp_path / "log", tmp_path / "diverged", tmp_path / "source"
    for path, epochs in ((folder, (0, 0, 1, 2)), (whole_one, (0, 0, 1, 2)), (diverged, (0, 0, 0))):
        log = open_log(path)
        for offset, epoch in enumerate(epochs):
            log.append(batch(offset, f"in {epoch}", epoch=epoch))
        log.fsync()
        log.close()
    whole = segment(folder).read_bytes()
    length = len(whole) // 4
    log = open_log(folder) if is_open else None
    damage(segment(folder), whole, 1 * length + 8, 2 * length + 8)
    target = OpenLog(log, [1], compacts=False) if log else ClosedLog(folder, 3, compacts=False)
    found = target.find()
    holding, data = find_batches([diverged], found.offset, found.leader_epoch, 1 << 20)
    accepted = accept(found, data)
    assert (holding, accepted) == (Holding.WHOLE, Accepted(whole[length : 2 * length], 2))
    assert target.write(found, accepted)

    found = target.find()
    assert (found.offset, found.leader_epoch) == (2, 1)
    assert find_batches([diverged], 2, 1, 1 << 20) == (Holding.OTHER, b"")
    assert mend(target, whole_one) == 1
    assert segment(folder).read_bytes() == whole
    if log:
        log.close()


def test_where_the_epoch_is_unknown_only_batches_that_lead_up_to_the_next_intact_one_are_accepted():
    first, second, after = batch(5, "a", epoch=2), batch(6, "b", epoch=3), batch(7, "c", epoch=4)
    unknown = place(first, header=None, leader_epoch=NO_LEADER_EPOCH, following=parse_header(after), end_offset=7)
    assert accept(unknown, first + second + after) == Accepted(first + second, 7)
    assert accept(unknown, first + second + flipped(after, 70)) == Accepted(first + second, 7)  # Its header is equal.
    for diverging in (
        first + second,
        first + second + batch(7, "c", epoch=5),
        first + second + batch(7, "other", epoch=4),
        first + after,
        batch(4, "a", epoch=2) + batch(5, "a", epoch=2) + second + after,
        flipped(first, 70) + second + after,
        after,
        b"",
    ):
        assert accept(unknown, diverging) is None
    assert accept(replace(unknown, following=None), first + second + after) is None


def test_in_a_compacted_log_one_batch_fills_exactly_what_its_neighbours_leave():
    first, second = batch(5, "a", epoch=2), batch(6, "b", epoch=2)
    exact_fit = place(first, header=None, exact_fit=True, end_position=len(first), end_offset=6)
    assert accept(exact_fit, first + second) == Accepted(first, 6)
    assert accept(replace(exact_fit, end_position=len(first) + 8), first) is None
    assert accept(replace(exact_fit, end_offset=7), first) is None
    assert accept(place(first, exact_fit=True), first + second) == Accepted(first, 6)


def compacted_gap(first: bytes, length: int) -> DamagedBatch:
    """Return the damage of three batches, the last of which began epoch 3."""
    known = place(first, header=None, exact_fit=True, later_epochs=((3, 7),))
    return replace(known, end_position=length, end_offset=8, unsound_bytes=length)


def test_in_a_compacted_log_several_batches_fill_exactly_what_their_neighbours_leave():
    first, second, third = batch(5, "a" * 100, epoch=2), batch(6, "b", epoch=2), batch(7, "c" * 9, epoch=3)
    whole = first + second + third
    gap = compacted_gap(first, len(whole))
    assert accept(gap, whole + batch(8, "after", epoch=3)) == Accepted(whole, 8)
    for wrong in (first, first + second, first + batch(6, "b", epoch=2) + batch(7, "c" * 900, epoch=3)):
        assert accept(gap, wrong) is None
    assert accept(replace(gap, end_offset=9), whole) is None
    assert accept(replace(gap, end_position=len(whole) + 8), whole) is None


def test_an_intact_header_amid_the_damage_of_a_compacted_log_says_what_belongs_there():
    first, second, third = batch(5, "a" * 100, epoch=2), batch(6, "b", epoch=2), batch(7, "c" * 9, epoch=3)
    whole = first + second + third
    gap = compacted_gap(first, len(whole))
    known = replace(gap, inner=((len(first), parse_header(second)),))
    assert accept(known, whole) == Accepted(whole, 8)
    assert accept(known, first + flipped(second, 70) + third) == Accepted(first, 6)  # The rest has other sources.
    assert accept(known, first + batch(6, "x", epoch=2) + third) == Accepted(first, 6)
    other = replace(gap, inner=((len(first) + 8, parse_header(second)),))
    assert accept(other, whole) is None  # A batch that was cleaned elsewhere: it ends where another one began.


@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open"])
@pytest.mark.parametrize(
    "places", [(4.0, 5.2, 6.0), (4.0, 5.0, 6.0), (4.0, 5.2), (0.0, 1.0), (10.0, 11.0), (4.2, 5.0, 6.2)]
)
def test_adjacent_damaged_batches_of_a_compacted_log_are_repaired(
    is_open: bool, places: tuple[float, ...], tmp_path: Path
):
    folder, source = tmp_path / "damaged", tmp_path / "source"
    whole = filled(folder)
    filled(source)
    log = open_log(folder)
    log.checkpoint(COUNT)
    length = len(whole) // COUNT
    damage(segment(folder), whole, *(int(at) * length + (200 if at % 1 else 4) for at in places))
    mend(OpenLog(log, [0], compacts=True) if is_open else ClosedLog(folder, None, compacts=True), source)
    assert segment(folder).read_bytes() == whole
    log.close()


@pytest.mark.parametrize(
    ("places", "offset", "epoch", "expected"),
    [
        ((), 4, 0, Holding.WHOLE),
        ((), 4, 1, Holding.OTHER),
        ((), 4, NO_LEADER_EPOCH, Holding.WHOLE),
        ((), COUNT, 0, Holding.ABSENT),
        ((4.2,), 4, 0, Holding.DAMAGED),
        ((4.0,), 4, 0, Holding.DAMAGED),
        ((2.0, 3.2), 4, 0, Holding.WHOLE),
        ((2.0,), COUNT, 0, Holding.DAMAGED),
    ],
    ids=["whole", "other epoch", "any epoch", "absent", "payload", "header", "damaged before it", "end unknown"],
)
def test_a_source_says_what_it_has_whatever_else_is_damaged(
    places: tuple[float, ...], offset: int, epoch: int, expected: Holding, tmp_path: Path
):
    whole = filled(tmp_path / "t-0")
    length = len(whole) // COUNT
    damage(segment(tmp_path / "t-0"), whole, *(int(at) * length + (200 if at % 1 else 4) for at in places))
    holding, data = find_batches([tmp_path / "t-0"], offset, epoch, length)
    assert holding is expected
    assert data == (whole[4 * length : 5 * length] if expected is Holding.WHOLE else b"")


def test_a_quarantined_log_is_a_source_of_repair(tmp_path: Path):
    whole = filled(tmp_path / "aside")
    filled(tmp_path / "t-0")
    length = len(whole) // COUNT
    damage(segment(tmp_path / "t-0"), whole, 4 * length + 100)
    assert find_batches([tmp_path / "t-0"], 4, 0, length) == (Holding.DAMAGED, b"")
    found = find_batches([tmp_path / "gone", tmp_path / "t-0", tmp_path / "aside"], 4, 0, 2 * length)
    assert found == (Holding.WHOLE, whole[4 * length : 6 * length])


def test_a_damaged_log_starts_later_only_where_it_has_an_intact_record_of_the_same_epoch(tmp_path: Path):
    whole = filled(tmp_path)
    length = len(whole) // COUNT
    damage(segment(tmp_path), whole, length + 100, 8 * length + 100)
    assert not move_log_start(tmp_path, 8, 0)  # Its batch there is damaged.
    assert not move_log_start(tmp_path, 6, 1)  # It is of another history.
    assert not move_log_start(tmp_path, COUNT, 0)  # Its end: an unclean leader may have had another log.
    assert Checkpoint.load(tmp_path).log_start_offset == 0

    assert move_log_start(tmp_path, 6, 0)
    assert Checkpoint.load(tmp_path) == Checkpoint(log_start_offset=6, recovery_point=6)
    assert not move_log_start(tmp_path, 5, 0)


def test_a_crash_before_the_log_start_has_moved_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole = filled(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            move_log_start(tmp_path, 6, 0)
    log = open_log(tmp_path)
    assert (log.log_start_offset, log.log_end_offset, segment(tmp_path).read_bytes()) == (0, COUNT, whole)
    log.close()


def test_a_log_start_that_a_full_disk_keeps_from_moving_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    whole = filled(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(log_start, "sync_file", Mock(side_effect=OSError(errno.ENOSPC, "no space")))
        with pytest.raises(DiskFullError):
            move_log_start(tmp_path, 6, 0)
    assert not list(tmp_path.glob("*.cleaned"))
    assert (Checkpoint.load(tmp_path).log_start_offset, segment(tmp_path).read_bytes()) == (0, whole)
    assert move_log_start(tmp_path, 6, 0)


def test_a_moved_log_keeps_what_follows_its_start(tmp_path: Path):
    whole = filled(tmp_path)
    length = len(whole) // COUNT
    damage(segment(tmp_path), whole, 2 * length + 100, 4 * length + 3)
    assert move_log_start(tmp_path, 6, 0)
    log = open_log(tmp_path)
    assert (log.log_start_offset, log.log_end_offset) == (6, COUNT)
    assert segment(tmp_path).read_bytes() == whole[6 * length :]
    log.close()


@pytest.mark.parametrize("damaged_at", [2, 5])
def test_a_log_with_damage_among_its_deleted_records_opens_again(tmp_path: Path, damaged_at: int):
    whole = filled(tmp_path)
    length = len(whole) // COUNT
    log = open_log(tmp_path)
    log.advance_log_start(6, COUNT)
    log.close()
    damage(segment(tmp_path), whole, damaged_at * length + 4)
    with pytest.raises(DamagedDataError):
        open_log(tmp_path)

    assert not drop_deleted(tmp_path, 6)  # Damage in records that are not deleted.
    assert drop_deleted(tmp_path, damaged_at)
    assert not drop_deleted(tmp_path, damaged_at)  # Nothing is left to do.
    log = open_log(tmp_path)
    assert (log.log_start_offset, log.log_end_offset) == (6, COUNT)
    assert segment(tmp_path).read_bytes() == whole[6 * length :]
    log.close()


def test_a_log_of_which_everything_is_deleted_opens_again(tmp_path: Path):
    whole = filled(tmp_path)
    log = open_log(tmp_path)
    log.advance_log_start(COUNT, COUNT)
    log.close()
    damage(segment(tmp_path), whole, 2 * len(whole) // COUNT + 4)
    with pytest.raises(DamagedDataError):
        open_log(tmp_path)

    assert drop_deleted(tmp_path, 2)
    assert not drop_deleted(tmp_path, 2)  # Nothing is left to do.
    log = open_log(tmp_path)
    assert (log.log_start_offset, log.log_end_offset) == (COUNT, COUNT)
    log.close()


def test_a_log_whose_end_is_unknown_is_not_taken_as_deleted(tmp_path: Path):
    whole = filled(tmp_path)
    log = open_log(tmp_path)
    log.advance_log_start(COUNT, COUNT)
    log.close()
    damage(segment(tmp_path), whole, (COUNT - 1) * len(whole) // COUNT + 4)

    assert not drop_deleted(tmp_path, COUNT - 1)


def test_deleted_records_stay_where_the_batch_at_the_log_start_is_damaged_too(tmp_path: Path):
    whole = filled(tmp_path)
    length = len(whole) // COUNT
    log = open_log(tmp_path)
    log.advance_log_start(6, COUNT)
    log.close()
    damage(segment(tmp_path), whole, 2 * length + 4, 6 * length + 100)
    assert not drop_deleted(tmp_path, 2)
