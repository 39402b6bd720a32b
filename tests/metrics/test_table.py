"""The table keeps Prometheus' conventions for names."""

from __future__ import annotations

import re

from raftlog.metrics import METRICS, TABLE


def test_names_are_unique_and_have_a_prefix():
    assert len(METRICS) == len(TABLE)
    assert [metric.name for metric in TABLE if not re.fullmatch(r"(raftlog|process)_[a-z_]+[a-z]", metric.name)] == []


def test_counters_and_only_counters_end_with_total():
    assert {metric.name for metric in TABLE if metric.name.endswith("_total")} == {
        metric.name for metric in TABLE if metric.kind == "counter"
    }


def test_units_are_base_units():
    assert [metric.name for metric in TABLE if re.search(r"_(ms|us|kb|mb|millis|minutes)(_|$)", metric.name)] == []
    assert METRICS["raftlog_request_seconds"].unit == "seconds"
    assert METRICS["raftlog_topic_bytes_in_total"].unit == "bytes"
    assert METRICS["raftlog_connections"].unit == "1"


def test_every_help_is_a_sentence_of_one_line():
    assert [metric.name for metric in TABLE if not metric.help.endswith(".") or "\n" in metric.help] == []


def test_histograms_and_only_histograms_have_ascending_buckets():
    for metric in TABLE:
        assert bool(metric.buckets) == (metric.kind == "histogram"), metric.name
        assert list(metric.buckets) == sorted(set(metric.buckets)), metric.name
