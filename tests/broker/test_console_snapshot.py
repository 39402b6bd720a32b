"""What an event of the console holds."""

from __future__ import annotations

import json

from raftlog.broker.console.advice import advice_for
from raftlog.broker.console.snapshot import HISTORY, MAX_ROWS, History, event, snapshot
from raftlog.metrics.overview import Overview, TopicRow


def test_a_name_with_a_line_feed_cannot_begin_another_event():
    assert event("cluster", {"topic": "a\n\nevent: cluster\ndata: {}"}).count(b"\n") == 3


def test_an_event_has_the_busiest_topics_only():
    rows = tuple(TopicRow(topic=f"t{number}", bytes_in_per_s=number) for number in range(10_000))
    data = snapshot(Overview(topics=rows), at_ms=1, broker_id=1, metadata_offset=5)
    assert len(data["topics"]) == MAX_ROWS
    assert data["topics"][0].topic == "t9999"


def test_the_history_is_bounded_and_skips_samples_without_rates():
    history = History()
    history.add(0, Overview())
    for number in range(2 * HISTORY):
        history.add(number, Overview(bytes_in_per_s=1.4))
    samples = json.loads(history.event().split(b"data: ")[1])
    assert len(samples) == HISTORY
    assert samples[-1] == [2 * HISTORY - 1, 1, 0, 0, 0]


def test_every_alert_has_advice():
    assert "Start" in advice_for("3 partitions without a leader")
    assert "doctor" in advice_for("something new")
