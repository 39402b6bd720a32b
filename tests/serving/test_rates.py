"""Token buckets by a simulated clock: the rates that senders reach, and numbers that no operator should choose."""

from __future__ import annotations

import math

import pytest

from raftlog.serving.rates import BURST_S, MAX_DEBT_S, Bucket


def sent_in(seconds: float, bucket: Bucket, amounts: list[float], *, late_s: float = 0.0) -> float:
    """Return what senders send that wait for their own charges; each sends one of the amounts again and again."""
    total, due = 0.0, [0.0] * len(amounts)
    while (now := min(due)) < seconds:
        sender = due.index(now)
        total += amounts[sender]
        due[sender] = now + bucket.charge(amounts[sender], now).wait_s(now) + late_s
        due[sender] = max(due[sender], now + 1e-4)  # A request takes some time.
    return total


@pytest.mark.parametrize("rate", [0.5, 10.0, 1e6, 1e9])
@pytest.mark.parametrize("part", [0.01, 0.1, 0.5])
def test_a_sender_reaches_its_rate_within_10_percent(rate: float, part: float):
    if rate * part < 1e-2:
        return
    assert sent_in(10, Bucket(rate, 0.0), [rate * part]) == pytest.approx(10 * rate, rel=0.1)


def test_a_sender_that_is_late_each_time_reaches_its_rate_all_the_same():
    assert sent_in(20, Bucket(1_000, 0.0), [100], late_s=0.05) == pytest.approx(20_000, rel=0.1)


def test_many_senders_share_one_rate():
    assert sent_in(20, Bucket(1_000, 0.0), [50.0] * 20) == pytest.approx(20_000, rel=0.1)


def test_senders_of_equal_requests_get_equal_shares():
    bucket, sent, due = Bucket(100, 0.0), [0, 0, 0, 0], [0.0, 0.1, 0.2, 0.3]
    while (now := min(due)) < 50:
        sender = due.index(now)
        sent[sender] += 1
        due[sender] = now + max(1e-3, bucket.charge(25, now).wait_s(now))
    assert max(sent) - min(sent) <= 4


def test_a_pause_earns_half_a_second_and_no_more():
    bucket = Bucket(100, 0.0)
    bucket.charge(50, 0.0)
    assert bucket.wait_s(0.0) == 0
    bucket.charge(50, 1_000.0)
    assert bucket.wait_s(1_000.0) == 0
    bucket.charge(50, 1_000.0)
    assert bucket.wait_s(1_000.0) == pytest.approx(BURST_S)


def test_an_idle_bucket_is_like_a_new_one():
    old, new = Bucket(10, 0.0), Bucket(10, 100.0)
    old.charge(500, 0.0)
    assert not old.is_idle(49.0)
    assert old.is_idle(100.0)
    assert old.charge(7, 100.0).at == new.charge(7, 100.0).at


def test_a_change_of_the_rate_keeps_what_is_owed():
    bucket = Bucket(10, 0.0)
    charged = bucket.charge(105, 0.0)
    assert charged.wait_s(0.0) == pytest.approx(10.0)
    bucket.change(100, 0.0)
    assert charged.wait_s(0.0) == bucket.wait_s(0.0) == pytest.approx(1.0)
    bucket.change(1, 0.5)
    assert charged.wait_s(0.5) == pytest.approx(50.0)
    bucket.lift()
    assert charged.wait_s(0.5) == 0
    assert bucket.charge(1e12, 0.5).wait_s(0.5) == 0


def test_charges_of_before_a_change_do_not_wait_for_later_ones():
    """Senders that keep the bucket saturated would hold back for ever those whose charge is of before."""
    bucket = Bucket(100, 0.0)
    before = bucket.charge(150, 0.0)
    bucket.change(200, 0.0)
    owed_s = bucket.wait_s(0.0)
    for _ in range(10):
        bucket.charge(1_000, 0.0)
    assert before.wait_s(0.0) == pytest.approx(owed_s)
    assert before.wait_s(owed_s) == 0


def test_a_refund_takes_one_charge_back():
    bucket = Bucket(10, 0.0)
    first, before = bucket.charge(20, 0.0), bucket.wait_s(0.0)
    second = bucket.charge(30, 0.0)
    bucket.refund(second)
    assert bucket.wait_s(0.0) == pytest.approx(before) == pytest.approx(first.wait_s(0.0))
    third = bucket.charge(30, 0.0)
    bucket.change(1, 0.0)
    bucket.refund(third)  # Its amount is another time now.
    assert bucket.wait_s(0.0) == pytest.approx(45)


def test_a_refund_of_a_charge_beyond_the_longest_debt_forgives_no_other_charge():
    bucket = Bucket(10, 0.0)
    bucket.charge(20, 0.0)
    owed = bucket.wait_s(0.0)
    huge = bucket.charge(1e15, 0.0)
    rest = bucket.refund(huge, 0.5)
    assert bucket.wait_s(0.0) == pytest.approx((owed + MAX_DEBT_S) / 2)
    assert rest.wait_s(0.0) == pytest.approx(bucket.wait_s(0.0))
    bucket.refund(rest)
    assert bucket.wait_s(0.0) == pytest.approx(owed)


@pytest.mark.parametrize("rate", [0.0, -1.0, 5e-324, 1e-30, 1e308, math.inf, math.nan])
def test_any_rate_gives_times_that_are_numbers(rate: float):
    bucket = Bucket(rate, 1e9)
    for amount in (1, 1 << 40, 1e300):
        wait_s = bucket.charge(amount, 1e9).wait_s(1e9)
        assert 0 <= wait_s <= MAX_DEBT_S
    bucket.change(5, 1e9)
    assert 0 <= bucket.wait_s(1e9) <= MAX_DEBT_S
    bucket.change(rate, 1e9)
    assert 0 <= bucket.wait_s(1e9) <= MAX_DEBT_S
