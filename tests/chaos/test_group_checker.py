"""Forged histories of a consumer group, one for each anomaly: all of them must be flagged, and a sound one not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from chaos.group_checker import check_group
from chaos.group_history import NEVER_NS, Commit, GroupHistory, Run, Sighting, Tenure


def commit(offset: int, at: int, outcome: str = "ok", *, epoch: int = -1, took: int = 1) -> Commit:
    done = at + took if outcome != "info" else NEVER_NS
    return Commit(offset=offset, invoked_ns=at, completed_ns=done, outcome=outcome, epoch=epoch)  # type: ignore[arg-type]


def sighting(offset: int, at: int) -> Sighting:
    return Sighting(partition=0, offset=offset, invoked_ns=at, completed_ns=at + 1)


def sound() -> GroupHistory:
    """`a` commits 4 and dies with 5 processed; `b` goes on at 4, and its last commit has no answer; `c` ends it all."""
    a = Tenure(process="a", partition=0, offset=0, polled_ns=0, began_ns=1)
    a.runs = [Run(0, 1, 10), Run(2, 4, 20)]
    a.commits = [commit(2, 11, epoch=1), commit(4, 21, epoch=1), commit(5, 40, "fail")]
    b = Tenure(process="b", partition=0, offset=4, polled_ns=30, began_ns=35)
    b.runs = [Run(4, 6, 45), Run(7, 7, 47)]
    b.commits = [commit(7, 46, epoch=2), commit(8, 48, "info")]
    c = Tenure(process="c", partition=0, offset=8, polled_ns=60, began_ns=65, automatic=True)
    c.runs = [Run(8, 9, 70)]
    sightings = [sighting(2, 15), sighting(7, 50), sighting(8, 66), sighting(10, 80)]
    return GroupHistory(tenures=[a, b, c], sightings=sightings, records={0: list(range(10))})


def test_a_sound_history_passes_with_its_figures():
    verdict = check_group(sound())

    assert verdict.ok
    assert verdict.anomalies == []
    assert (verdict.records, verdict.processed, verdict.again, verdict.takeovers) == (10, 11, 1, 2)
    assert verdict.commits == {"ok": 3, "fail": 1, "info": 1}


def late_tenure(*commits: Commit) -> GroupHistory:
    """`z` slept after its poll at 5, and logs at 36 what it was assigned then: `b` owns the partition by now."""
    history = sound()
    z = Tenure(process="z", partition=0, offset=4, polled_ns=5, began_ns=36, ended_ns=37, commits=[*commits])
    history.tenures.append(z)
    return history


def test_a_member_that_slept_may_log_its_tenure_when_it_is_over():
    assert check_group(late_tenure()).anomalies == []
    assert check_group(late_tenure(commit(4, 36, "fail"))).anomalies == []
    assert {anomaly.kind for anomaly in check_group(late_tenure(commit(4, 36))).anomalies} == {"two owners"}


def test_a_commit_after_any_later_tenure_is_of_two_owners():
    history = sound()
    history.tenures[0].commits.append(commit(5, 71))
    assert "two owners" in {anomaly.kind for anomaly in check_group(history).anomalies}


def lose_a_record(history: GroupHistory) -> None:
    history.tenures[2].runs = [Run(8, 8, 70)]
    history.sightings[-1] = sighting(9, 80)


def begin_below_an_acknowledged_commit(history: GroupHistory) -> None:
    history.tenures[1].offset, history.tenures[1].runs[0] = 2, Run(2, 6, 45)


def begin_above_it(history: GroupHistory) -> None:
    history.tenures[1].offset, history.tenures[1].runs[0] = 6, Run(6, 6, 45)


def begin_where_a_commit_was_refused(history: GroupHistory) -> None:
    history.tenures[0].commits[2] = commit(5, 22, "fail")
    history.tenures[1].offset, history.tenures[1].runs[0] = 5, Run(5, 6, 45)


def take_a_former_owners_commit(history: GroupHistory) -> None:
    history.tenures[0].commits[2] = commit(5, 40)


def go_back_by_a_former_owners_commit(history: GroupHistory) -> None:
    history.tenures[0].commits.append(commit(4, 60, "info"))
    history.sightings.append(sighting(4, 67))


def commit_below_what_is_committed(history: GroupHistory) -> None:
    history.tenures[1].commits.append(commit(6, 52, epoch=2))


def forget_a_commit_with_the_coordinator(history: GroupHistory) -> None:
    history.sightings[1] = sighting(4, 50)


def commit_what_was_not_processed(history: GroupHistory) -> None:
    history.tenures[0].commits[0] = commit(3, 11, epoch=1)
    history.sightings[0] = sighting(3, 15)


def show_what_nobody_committed(history: GroupHistory) -> None:
    history.sightings[0] = sighting(3, 20)


def share_an_epoch(history: GroupHistory) -> None:
    history.tenures[1].commits[0] = commit(7, 46, epoch=1)


def commit_in_an_earlier_epoch(history: GroupHistory) -> None:
    history.tenures[1].commits[0] = commit(7, 46, epoch=0)


def skip_a_record(history: GroupHistory) -> None:
    history.tenures[1].runs = [Run(4, 5, 45), Run(7, 7, 47)]


def repeat_a_record(history: GroupHistory) -> None:
    history.tenures[1].runs[1] = Run(6, 7, 47)


def read_what_is_not_there(history: GroupHistory) -> None:
    history.tenures[2].runs.append(Run(10, 11, 75))


def read_without_owning(history: GroupHistory) -> None:
    history.unowned.append("something")


def prove_nothing(history: GroupHistory) -> None:
    history.tenures.clear()
    history.sightings.clear()
    history.records.clear()


@pytest.mark.parametrize(
    ("forge", "expected"),
    [
        (lose_a_record, ["never processed"]),
        (begin_below_an_acknowledged_commit, ["lost commit"]),
        (begin_above_it, ["committed unprocessed", "never processed", "phantom commit"]),
        (begin_where_a_commit_was_refused, ["refused commit counts"]),
        (take_a_former_owners_commit, ["two owners"]),
        (go_back_by_a_former_owners_commit, ["lost commit"]),
        (commit_below_what_is_committed, ["commit went back"]),
        (forget_a_commit_with_the_coordinator, ["lost commit"]),
        (commit_what_was_not_processed, ["committed unprocessed"]),
        (show_what_nobody_committed, ["phantom commit"]),
        (share_an_epoch, ["two owners"]),
        (commit_in_an_earlier_epoch, ["epoch went back"]),
        (skip_a_record, ["committed unprocessed", "never processed", "skip"]),
        (repeat_a_record, ["repeat"]),
        (read_what_is_not_there, ["phantom"]),
        (read_without_owning, ["not owned"]),
        (prove_nothing, []),
    ],
)
def test_each_anomaly_is_flagged(forge: Callable[[GroupHistory], None], expected: list[str]):
    history = sound()
    forge(history)

    verdict = check_group(history)

    assert sorted({anomaly.kind for anomaly in verdict.anomalies}) == expected
    assert not verdict.ok


def test_members_lines_become_tenures_though_they_died_in_the_middle():
    history = GroupHistory()
    began = {"process": "a/1", "offset": 3, "polled_ns": 1, "began_ns": 2, "automatic": False}
    lines = [
        {"kind": "processed", "partition": 1, "first": 0, "last": 0, "at_ns": 1},
        {"kind": "began", "partition": 0, **began},
        {"kind": "processed", "partition": 0, "first": 3, "last": 4, "at_ns": 5},
        {"kind": "commit", "partition": 0, "number": 1, "offset": 5, "at_ns": 6},
        {"kind": "committed", "number": 1, "at_ns": 7, "outcome": "ok", "epoch": 2, "error": ""},
        {"kind": "ended", "partition": 0, "at_ns": 8},
        {"kind": "began", "partition": 0, **began},
        {"kind": "commit", "partition": 0, "number": 2, "offset": 3, "at_ns": 9},
    ]

    history.add_member([*(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines), b'{"kind": "comm'])

    first, second = history.tenures
    assert (first.runs, first.ended_ns) == ([Run(3, 4, 5)], 8)
    assert first.commits == [Commit(offset=5, invoked_ns=6, completed_ns=7, outcome="ok", epoch=2)]
    assert second.commits == [Commit(offset=3, invoked_ns=9)]
    assert second.ended_ns == NEVER_NS
    assert len(history.unowned) == 1


def test_a_history_is_kept(tmp_path: Path):
    history = sound()
    history.note("kill: broker-1")

    history.save(tmp_path / "history.jsonl")

    kinds = [orjson.loads(line)["kind"] for line in (tmp_path / "history.jsonl").read_bytes().splitlines()]
    assert kinds == ["tenure"] * 3 + ["sighting"] * 4 + ["event", "records"]


def test_a_long_history_is_judged_in_near_linear_time():
    """A million processed records in a few seconds: nothing in it is quadratic."""
    history = GroupHistory(records={0: list(range(1_000_000))})
    for number in range(1_000):
        first = 1_000 * number
        tenure = Tenure(process=f"m{number}", partition=0, offset=first, polled_ns=first, began_ns=first + 1)
        for step in range(10):
            start = first + 100 * step
            tenure.runs.append(Run(start, start + 99, start + 50))
            tenure.commits.append(commit(start + 100, start + 60, epoch=number))
        history.tenures.append(tenure)

    verdict = check_group(history)

    assert verdict.ok
    assert (verdict.processed, verdict.takeovers, verdict.commits["ok"]) == (1_000_000, 999, 10_000)
