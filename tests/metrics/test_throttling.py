"""The metrics of quotas: delays and refusals by limit."""

from __future__ import annotations

from raftlog.broker.metrics.throttling import Throttling
from raftlog.metrics import TABLE, Page


def test_delays_and_refusals_are_shown():
    throttling, page = Throttling(), Page(TABLE)
    throttling.count("produce", 0.5)
    throttling.count("produce", 0.25)
    throttling.count("connection", 1.0)
    throttling.count_refusal()
    throttling.buckets = lambda: 7

    throttling.show(page)

    lines = page.text().splitlines()
    assert [line for line in lines if line.startswith(("raftlog_throttle", "raftlog_quota"))] == [
        'raftlog_throttled_total{limit="produce"} 2',
        'raftlog_throttled_total{limit="connection"} 1',
        'raftlog_throttle_seconds_total{limit="produce"} 0.75',
        'raftlog_throttle_seconds_total{limit="connection"} 1.0',
        "raftlog_quota_refusals_total 1",
        "raftlog_quota_buckets 7",
    ]
