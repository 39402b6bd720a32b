"""The bulk load's counts: forged readings, each with one thing wrong, and a short load on a real cluster."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from chaos.bulk import SAMPLE, BulkResult, Sent, make_values, numbers_of
from chaos.bulk_load import broken_by, sampled_history
from chaos.bulk_tally import Tally, judge
from chaos.checker import check
from chaos.options import Options
from chaos.runner import run_scenario

COUNT = 2 * SAMPLE + 10


def table(values: list[bytes], offset: int = 0, partition: int = 0) -> pa.Table:
    return pa.table(
        {
            "partition": pa.array([partition] * len(values), pa.int32()),
            "offset": pa.array(range(offset, offset + len(values)), pa.int64()),
            "value": pa.array(values, pa.large_binary()),
        }
    )


def sent(*, ok: bool = True, first: int = 0, count: int = COUNT) -> Sent:
    sample = [(number, 0, number) for number in range(-(-first // SAMPLE) * SAMPLE, first + count, SAMPLE)]
    return Sent(life=1, first=first, count=count, ok=ok, invoked_ns=1, completed_ns=2, sample=sample if ok else [])


def judged(calls: list[Sent], *tables: pa.Table, final: pa.Table | None = None) -> BulkResult:
    tail, again = Tally(), Tally()
    for one in tables:
        tail.take(one, 3)
    again.take(tables[0] if final is None else final, 4)
    return judge(calls, tail, again, log_starts={0: 0}, problems=[])


def verdict(result: BulkResult) -> str:
    return broken_by(result, check(sampled_history(result)))


def test_values_are_told_apart():
    lives, numbers, foreign = numbers_of(pa.chunked_array([make_values(7, 5, 3), [b"x"]], pa.large_binary()))
    assert lives.tolist() == [7, 7, 7, -1]
    assert numbers.tolist() == [5, 6, 7, -1]
    assert foreign == 1


def test_a_load_of_which_everything_is_read_once_is_honest():
    result = judged([sent()], table(make_values(1, 0, COUNT)))
    assert (result.acknowledged, result.read, len(result.tail), len(result.final)) == (COUNT, COUNT, 3, 3)
    assert verdict(result) == ""


def test_an_acknowledged_record_that_nobody_reads_is_lost():
    values = make_values(1, 0, COUNT)
    result = judged([sent()], table(values[:-1]))
    assert result.lost == 1
    assert "1 lost" in verdict(result)


def test_a_record_of_a_call_whose_outcome_is_unknown_may_be_there_or_not():
    values, first = make_values(1, 0, COUNT), SAMPLE - 5  # Two of its records are in the sample.
    calls = [sent(count=first), sent(ok=False, first=first, count=COUNT - first)]
    assert verdict(judged(calls, table(values))) == verdict(judged(calls, table(values[:first]))) == ""


def test_a_record_at_two_offsets_is_repeated():
    values = make_values(1, 0, COUNT)
    result = judged([sent()], table([*values, values[1]]))
    assert result.repeated >= 1
    assert "repeated" in verdict(result)


def test_a_reader_that_jumps_leaves_a_gap():
    values = make_values(1, 0, COUNT)
    result = judged([sent()], table(values[:10]), table(values[10:], offset=11))
    assert result.gaps == 1
    assert "1 gaps" in verdict(result)


@pytest.mark.parametrize(("starts_at", "gaps"), [(19, 1), (20, 0), (25, 0)])
def test_the_final_reader_may_jump_to_where_retention_lets_the_log_start(starts_at: int, gaps: int):
    values = make_values(1, 0, COUNT)
    tail, final = Tally(), Tally()
    tail.take(table(values), 3)
    final.take(table(values[:10]), 4)
    final.take(table(values[20:], offset=20), 5)
    assert judge([sent()], tail, final, log_starts={0: starts_at}, problems=[]).gaps == gaps
    assert judge([sent()], final, tail, log_starts={0: starts_at}, problems=[]).gaps == 1


def test_values_that_nobody_sent_are_foreign():
    values = make_values(1, 0, COUNT)
    result = judged([sent()], table([*values, *make_values(1, COUNT, 1), *make_values(2, 1, 1), b"x"]))
    assert result.foreign == 6  # Both readers saw them.
    assert "6 foreign" in verdict(result)


def test_a_sampled_record_that_the_final_reader_misses_is_lost():
    values = make_values(1, 0, COUNT)
    result = judged([sent()], table(values), final=table(values[SAMPLE + 1 :], offset=SAMPLE + 1))
    assert result.lost == 0
    assert "lost in the sample" in verdict(result)


def test_nothing_at_all_proves_nothing():
    assert "no record was acknowledged" in verdict(judged([], table([])))


@pytest.mark.cluster
@pytest.mark.timeout(240)
@pytest.mark.filterwarnings("ignore::ResourceWarning:requests.*")
async def test_a_leader_is_cut_off_under_bulk_load(tmp_path: Path):
    report = (await run_scenario("paused-leader", tmp_path, Options(load=20_000))).report

    assert report["broken_promise"] == ""
    assert report["ok"]
    assert report["bulk"]["acknowledged"] > 20_000
    assert report["bulk"]["read"] >= report["bulk"]["acknowledged"]
