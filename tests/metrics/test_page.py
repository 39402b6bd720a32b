"""The page in Prometheus' text format: prometheus_client's parser reads what was added."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from raftlog.metrics import TABLE, Histogram, Page


def samples(page: Page) -> list[Sample]:
    return [sample for family in text_string_to_metric_families(page.text()) for sample in family.samples]


def test_samples_keep_their_names_labels_and_values():
    page = Page(TABLE)
    page.add("raftlog_requests_total", 3, route="/v1/fetch", status=200)
    page.add("raftlog_event_loop_lag_seconds", 0.25)
    (counter,) = [family for family in text_string_to_metric_families(page.text()) if family.type == "counter"]

    assert [tuple(sample)[:3] for sample in samples(page)] == [
        ("raftlog_requests_total", {"route": "/v1/fetch", "status": "200"}, 3.0),
        ("raftlog_event_loop_lag_seconds", {}, 0.25),
    ]
    assert (counter.name, counter.documentation) == (
        "raftlog_requests",
        "Requests that were answered; those of Kafka's protocol have the route `kafka` and the API.",
    )


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_group_id_is_one_label(group: str):
    page = Page(TABLE)
    page.add("raftlog_group_lag_records", 7, group=group, topic="t")

    (sample,) = samples(page)
    assert (sample.labels, sample.value) == ({"group": group, "topic": "t"}, 7.0)


@given(st.lists(st.floats(0, 100)))
def test_a_histogram_has_cumulative_buckets(values: list[float]):
    histogram, page = Histogram((0.5, 1.0, 10.0)), Page(TABLE)
    for value in values:
        histogram.observe(value)
    page.add_histogram("raftlog_request_seconds", histogram, route="/v1/produce")

    found = {(sample.name, sample.labels.get("le")): sample.value for sample in samples(page)}
    if not values:
        assert found == {}
        return
    for bound in (0.5, 1.0, 10.0, math.inf):
        text = "+Inf" if bound == math.inf else str(bound)
        assert found["raftlog_request_seconds_bucket", text] == sum(value <= bound for value in values)
    assert found["raftlog_request_seconds_count", None] == len(values)
    assert found["raftlog_request_seconds_sum", None] == pytest.approx(sum(values))


def test_a_histogram_without_labels_is_read_too():
    histogram, page = Histogram(), Page(TABLE)
    histogram.observe(0.3)
    page.add_histogram("raftlog_log_sync_seconds", histogram)

    assert [sample.labels for sample in samples(page) if sample.name.endswith(("_sum", "_count"))] == [{}, {}]


def test_a_metric_outside_the_table_is_refused():
    with pytest.raises(KeyError):
        Page(TABLE).add("raftlog_surprise_total", 1)


def test_every_metric_is_read_back_as_its_kind():
    page = Page(TABLE)
    for metric in TABLE:
        labels = dict.fromkeys(metric.labels, "x")
        if metric.kind == "histogram":
            histogram = Histogram(metric.buckets)
            histogram.observe(1)
            page.add_histogram(metric.name, histogram, **labels)
        else:
            page.add(metric.name, 1, **labels)

    read = {family.name: family.type for family in text_string_to_metric_families(page.text())}
    assert read == {metric.name.removesuffix("_total"): metric.kind for metric in TABLE}
