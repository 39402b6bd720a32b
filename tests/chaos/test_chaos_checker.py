"""Forged histories: the checker must flag each anomaly, and nothing in an honest history."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from chaos.checker import check
from chaos.history import End, History, Leadership, Outcome, Read, ReplicaLog, Send, StoredBatch, with_code
from raftlog.errors import DiskFullError, RaftlogError, StaleRouteError, StorageError


def send(value: str, offset: int = -1, *, at: int = 0, took: int = 1, outcome: Outcome = "ok", **more) -> Send:
    named = {"process": "p1", "partition": 0, **more}
    return Send(value=value, invoked_ns=at, completed_ns=at + took, outcome=outcome, offset=offset, **named)


BEGUN = {"final": 100, "again": 200}


def reads(*values: str, process: str = "final", start: int = 0) -> list[Read]:
    return [
        Read(process=process, partition=0, offset=start + i, value=value, completed_ns=BEGUN.get(process, 50) + i)
        for i, value in enumerate(values)
    ]


def read_with(extra: str, **more) -> Read:
    return replace(reads("a")[0], extra=extra, **more)


@pytest.mark.parametrize(
    ("sent", "read", "again", "found"),
    [
        ("k at 1", "k at 1", "k at 1", 0),
        ("", "k at 1", "k at 1", 0),
        ("k at 1", "", "", 0),
        ("k at 1", "k at 2", "k at 2", 1),
        ("", "k at 1", "k at 2", 1),
    ],
)
def test_what_a_record_has_beside_its_value_stays(sent: str, read: str, again: str, found: int):
    history = honest()
    history.sends[0] = replace(history.sends[0], extra=sent)
    history.reads[0] = read_with(read, process="tail")
    history.final_reads[0] = read_with(again)
    assert check(history).count("altered") == found


def test_a_record_in_another_partition_is_altered():
    history = honest()
    history.sends[0] = replace(history.sends[0], partition=1)
    assert check(history).count("altered") == 1


def log(broker: str, *values: str, epochs: str = "0000", in_sync: bool = True) -> ReplicaLog:
    batches = [
        StoredBatch(
            base_offset=offset,
            leader_epoch=int(epochs[offset]),
            crc=hash(value),
            producer_id=7,
            producer_epoch=0,
            base_sequence=offset,
            values=(value,),
        )
        for offset, value in enumerate(values)
    ]
    return ReplicaLog(broker=broker, partition=0, in_sync=in_sync, batches=tuple(batches))


def honest() -> History:
    whole = ("a", "b", "unknown", "c")
    return History(
        sends=[
            send("a", 0, at=0),
            send("b", 1, at=10),
            send("unknown", at=20, outcome="info"),
            send("refused", at=30, outcome="fail"),
            send("c", 3, at=40),
        ],
        reads=reads("a", "b", process="tail"),
        final_reads=[*reads(*whole), *reads(*whole, process="again")],
        ends=[End(process="ends", partition=0, offset=end, completed_ns=end) for end in (0, 2, 2, 4)],
        leaderships=[
            Leadership(broker=broker, partition=0, leader=leader, leader_epoch=leader, isr=(1, 2), seen_ns=leader)
            for broker in ("broker-1", "broker-2")
            for leader in (1, 2)
        ],
        replicas=[log("broker-1", *whole), log("broker-2", *whole)],
    )


def kinds(history: History) -> set[str]:
    verdict = check(history)
    assert not verdict.ok
    return set(verdict.kinds)


def test_what_is_below_the_log_start_may_be_gone_and_nothing_else():
    history = honest()
    history.replicas.clear()
    history.final_reads = [read for read in history.final_reads if read.offset >= 2]
    assert kinds(history) == {"lost", "unstable"}

    history.log_starts[0] = 2
    assert check(history).ok

    history.log_starts[0] = 1
    assert kinds(history) == {"lost", "unstable"}

    history.final_reads.clear()
    history.log_starts[0] = 4
    assert check(history).ok  # All of it was removed.


def test_an_honest_history_passes_with_its_figures():
    verdict = check(honest())

    assert verdict.ok
    assert verdict.anomalies == []
    assert (verdict.acknowledged, verdict.unknown, verdict.failed, verdict.read) == (3, 1, 1, 4)


def test_an_unknown_send_may_be_absent():
    history = honest()
    history.sends[-1] = send("c", 2, at=40)
    history.final_reads = reads("a", "b", "c")
    history.replicas = []

    assert check(history).ok


@pytest.mark.parametrize("acks", ["0", "1"])
def test_only_acks_all_owes_durability(acks: str):
    history = honest()
    history.sends += [send("weak", 4, at=50, acks=acks), send("weaker", 2, at=60, acks=acks)]

    assert check(history).ok


def test_an_acknowledgement_without_an_offset_owes_durability_too():
    history = honest()
    history.sends[1:2] = [replace(history.sends[1], offset=-1), send("d", at=50, process="kcat")]
    assert kinds(history) == {"lost"}, "only d is missing; b is where it was read"
    history.log_starts[0] = 1
    assert check(history).ok, "it may have been below the log start"


def test_a_hole_below_what_is_read_is_lost():
    history = honest()
    history.final_reads = [read for read in history.final_reads if read.value != "b"]
    history.reads, history.replicas = [], []

    assert kinds(history) == {"lost"}
    assert check(history).anomalies[0].detail == "b was acknowledged at offset 1 and is missing"


def test_a_missing_tail_is_unseen():
    history = honest()
    history.final_reads, history.replicas = reads("a", "b", "unknown"), []

    assert [(one.kind, one.detail) for one in check(history).anomalies] == [
        ("unseen", "c was acknowledged at offset 3 and is not read")
    ]


def test_a_value_read_before_and_gone_is_lost_even_if_never_acknowledged():
    history = honest()
    history.reads = reads("a", "b", "unknown", process="tail")
    history.sends[-1] = send("c", 2, at=40)
    history.final_reads, history.replicas = reads("a", "b", "c"), []

    assert check(history).count("lost") == 1


def test_a_value_at_two_offsets_is_a_duplicate():
    history = honest()
    history.final_reads += reads("b", process="late", start=4)

    assert [a.detail for a in check(history).anomalies if a.kind == "duplicate"] == ["b is at [(0, 1), (0, 4)]"]


def test_a_repeat_without_idempotence_is_counted_and_harmless():
    history = honest()
    history.sends[1] = send("b", 1, at=10, idempotent=False)
    history.final_reads, history.replicas = reads("a", "b", "unknown", "c", "b"), []

    verdict = check(history)

    assert verdict.ok
    assert verdict.harmless_repeats == 1


def test_a_value_nobody_sent_is_a_phantom():
    history = honest()
    history.final_reads, history.replicas = reads("a", "b", "unknown", "c", "ghost"), []

    assert kinds(history) == {"phantom"}


def test_a_failed_send_that_is_read_is_an_aborted_read():
    history = honest()
    history.final_reads, history.replicas = reads("a", "b", "unknown", "c", "refused"), []

    assert kinds(history) == {"aborted read"}


def test_a_checksum_that_does_not_fit_is_corrupt():
    history = honest()
    history.corruptions.append("tail/0: the payload's checksum does not fit")

    assert kinds(history) == {"corrupt"}


@pytest.mark.parametrize(
    ("error", "found"),
    [(StorageError("t-0: the device is gone"), 1), (DiskFullError("no room"), 0), (StaleRouteError("broken"), 0)],
)
def test_a_send_that_fails_because_one_disk_failed_is_flagged(error: RaftlogError, found: int):
    history = honest()
    history.sends.append(send("x", outcome="fail", error=with_code(error)))
    assert check(history).count("blamed disk") == found


def test_an_offset_with_two_values_is_inconsistent_and_unstable():
    history = honest()
    history.reads = reads("a", "unknown", process="tail")

    assert {"inconsistent offset", "unstable"} <= kinds(history)


def test_a_later_send_with_a_lower_offset_is_reordered():
    history = honest()
    history.sends[0], history.sends[1] = send("b", 1, at=0), send("a", 0, at=10)

    assert kinds(history) == {"reordered"}


def test_concurrent_sends_may_land_in_either_order():
    history = honest()
    history.sends[0], history.sends[1] = send("b", 1, at=0, took=20), send("a", 0, at=10, process="p2")

    assert check(history).ok


def test_one_producer_keeps_its_order_even_of_what_is_on_its_way():
    history = honest()
    history.sends[0], history.sends[1] = send("b", 1, at=0, took=20), send("a", 0, at=10)

    assert kinds(history) == {"nonmonotonic send"}


def test_a_reader_that_goes_back_is_nonmonotonic():
    history = honest()
    history.reads = [*reads("a", "b", process="tail"), *reads("a", process="tail")]

    assert kinds(history) == {"nonmonotonic poll"}


def test_a_reader_that_jumps_over_a_record_skips():
    history = honest()
    history.reads = [*reads("a", process="tail"), *reads("unknown", process="tail", start=2)]

    assert kinds(history) == {"skip"}


def test_what_one_full_read_shows_every_other_one_shows():
    history = honest()
    history.final_reads = [*reads("a", "b", "unknown", "c"), *reads("a", "b", "unknown", process="again")]

    assert kinds(history) == {"unstable", "stale read"}


def test_a_later_full_read_may_show_what_was_not_acknowledged_before_the_one_before():
    """With acks=1 a record becomes visible only once the followers have it."""
    history = honest()
    history.final_reads = [*reads("a", "b", "unknown"), *reads("a", "b", "unknown", "c", process="again")]
    history.sends[-1] = replace(history.sends[-1], acks="1")
    assert check(history).ok

    history.sends[-1] = replace(history.sends[-1], acks="all", completed_ns=101)
    assert check(history).ok

    history.sends[-1] = replace(history.sends[-1], completed_ns=99)
    assert kinds(history) == {"stale read"}


def test_an_end_that_goes_back_is_flagged():
    history = honest()
    history.ends.append(End(process="ends", partition=0, offset=3, completed_ns=9))

    assert kinds(history) == {"end went back"}


def test_two_brokers_that_appended_in_one_epoch_are_two_leaders():
    history = honest()
    history.replicas[1] = log("broker-2", "a", "b", "other", "c", in_sync=False)

    assert kinds(history) == {"two leaders in an epoch"}


def test_two_brokers_that_are_named_leader_in_one_epoch_are_two_leaders():
    history = honest()
    history.leaderships.append(replace(history.leaderships[0], leader=3))

    assert kinds(history) == {"two leaders in an epoch"}


def test_a_replica_in_sync_with_another_history_differs():
    history = honest()
    history.replicas[1] = log("broker-2", "a", "b", "unknown", "c", epochs="0001")

    assert kinds(history) == {"replicas differ"}


def test_what_was_acknowledged_is_on_every_replica_in_sync():
    history = honest()
    history.replicas[1] = log("broker-2", "a", "b", "unknown")

    assert kinds(history) == {"not on every replica"}
    history.replicas[1] = log("broker-2", "a", "b", "unknown", in_sync=False)
    assert check(history).ok


def test_a_damaged_log_is_flagged():
    history = honest()
    history.replicas[1] = replace(history.replicas[1], damage="batch at byte 64: checksum", in_sync=False)

    assert kinds(history) == {"damaged log"}


def test_epochs_never_fall_along_a_log():
    history = honest()
    history.replicas = [log("broker-1", "a", "b", "unknown", "c", epochs="0010")]

    assert kinds(history) == {"epochs fall"}


def forged(history: History, **change: int) -> History:
    """Change the last batch of every replica."""
    history.replicas = [
        replace(one, batches=(*one.batches[:-1], replace(one.batches[-1], **change))) for one in history.replicas
    ]
    return history


def test_a_hole_in_a_log_is_flagged():
    assert "hole in a log" in kinds(forged(honest(), base_offset=9))


def test_an_append_of_an_old_producer_epoch_is_a_zombie():
    assert kinds(forged(honest(), producer_epoch=-1)) == {"zombie"}


@pytest.mark.parametrize("sequence", [2, 4])
def test_a_sequence_neither_repeats_nor_jumps(sequence: int):
    assert kinds(forged(honest(), base_sequence=sequence)) == {"sequence"}


@pytest.mark.parametrize("history", [History(), History(sends=[send("a", 0)]), History(final_reads=reads())])
def test_a_history_that_proves_nothing_is_invalid(history: History):
    verdict = check(history)

    assert not verdict.valid
    assert not verdict.ok


def test_time_grows_with_the_length_of_the_history_alone():
    took = [_seconds_to_check(count) for count in (5_000, 50_000)]

    assert took[1] < 30 * max(took[0], 0.01)


def _seconds_to_check(count: int) -> float:
    values = [str(number) for number in range(count)]
    history = History(
        sends=[send(value, number, at=10 * number) for number, value in enumerate(values)],
        reads=reads(*values, process="tail"),
        final_reads=[*reads(*values), *reads(*values, process="again")],
    )
    started = time.process_time()
    assert check(history).ok
    return time.process_time() - started
