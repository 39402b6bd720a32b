"""Prometheus text from nodes, which may be hostile."""

from __future__ import annotations

import time

from raftlog.metrics import TABLE, Page
from raftlog.metrics.text import MAX_SAMPLES, parse


def test_a_page_of_a_node_is_read_back():
    page = Page(TABLE)
    name = 'a "quoted" \\ group\nline'
    page.add("raftlog_group_lag_records", 7, group=name, topic="t")
    page.add("raftlog_group_lag_records", 5, group="b", topic="t")
    page.add("process_open_fds", 3)
    samples = parse(page.text(), {"raftlog_group_lag_records", "process_open_fds"})
    assert samples.by_label("raftlog_group_lag_records", "group") == {name: 7, "b": 5}
    assert samples.total("raftlog_group_lag_records") == 12
    assert samples.total("process_open_fds") == 3
    assert samples.label("raftlog_group_lag_records", "topic") == "t"
    assert samples.each("raftlog_partitions") == ()


def test_lines_that_are_no_samples_are_skipped():
    text = "# HELP a b\na\na x\na{b 1\na NaN\na +Inf\na 1 2 3\n\x00\nother 1\na 2\n" + "a{" + "x" * 9_000 + "} 1\n"
    assert [sample.value for sample in parse(text, {"a"}).each("a")] == [2.0]


def test_a_hostile_page_takes_bounded_time_and_memory():
    begun = time.process_time()
    many = parse("a 1\n" * (2 * MAX_SAMPLES), {"a"})
    assert len(many.each("a")) == MAX_SAMPLES
    line = "a{" + "x" * 8_000 + '="' + "\\" * 100 + "} 1\n"
    parse(line * 200, {"a"})
    parse("a{" + 'x="\\\\",' * 1_000 + "} 1\n", {"a"})
    assert time.process_time() - begun < 10
