"""Forged histories of topics: each broken promise must be found, and none in an honest history."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chaos.history import Outcome
from chaos.linearizability import Operation, TooManyConfigurationsError, explain
from chaos.metadata_checker import check_metadata
from chaos.metadata_history import Action, Listing, MetadataHistory, TopicOperation, TopicSeen

A = TopicSeen(topic_id="A", partitions=2, value=1)
B = TopicSeen(topic_id="B", partitions=1, value=10)


def did(
    action: Action, at: int, seen: TopicSeen | None = None, *, took: int = 5, outcome: Outcome = "ok", **more: Any
) -> TopicOperation:
    """Return an operation on topic `t`; a creation or alteration asks for what its answer shows."""
    asked = {"partitions": seen.partitions, "value": seen.value} if seen and action in ("create", "alter") else {}
    return TopicOperation(
        process="p",
        broker="broker-1",
        action=action,
        topic="t",
        invoked_ns=at,
        completed_ns=at + took,
        outcome=outcome,
        seen=seen if outcome == "ok" else None,
        **(asked | more),
    )


def listing(at: int, topics: dict[str, TopicSeen], *, offset: int | None = None, final: bool = False) -> Listing:
    return Listing(
        process="p",
        broker="broker-1",
        invoked_ns=at,
        completed_ns=at + 5,
        topics=topics,
        metadata_offset=offset,
        final=final,
    )


def history(*operations: TopicOperation, final: TopicSeen | None = None) -> MetadataHistory:
    """Return these operations, in a history that has acknowledged changes of another topic, and a final listing."""
    other = TopicSeen(topic_id="O", partitions=1, value=-1)
    others = [
        replace(did("create", 0, other), topic="other"),
        replace(did("alter", 10, replace(other, value=-2)), topic="other"),
        replace(did("delete", 20), topic="other"),
    ]
    found = {} if final is None else {"t": final}
    return MetadataHistory(operations=[*others, *operations], listings=[listing(1_000, found, final=True)])


def kinds(checked: MetadataHistory) -> list[str]:
    return [anomaly.kind for anomaly in check_metadata(checked).anomalies]


ALTERED = replace(A, partitions=3, value=2)


def test_an_honest_history_passes_with_its_figures():
    verdict = check_metadata(
        history(
            did("read", 90, None),
            did("create", 100, A),
            did("create", 110, B, outcome="fail", code="TOPIC_ALREADY_EXISTS"),
            did("alter", 120, ALTERED),
            did("read", 130, ALTERED),
            did("alter", 140, replace(A, value=3, partitions=1), outcome="fail", code="INVALID_PARTITIONS"),
            did("delete", 150),
            did("alter", 160, replace(A, value=4), outcome="fail", code="UNKNOWN_TOPIC_OR_PARTITION"),
            did("create", 170, B),
            did("create", 180, A, outcome="info", value=5),
            final=B,
        )
    )

    assert verdict.anomalies == []
    assert verdict.ok
    assert (verdict.acknowledged, verdict.unknown, verdict.failed, verdict.read) == (7, 1, 3, 3)


def test_a_lost_create():
    assert kinds(history(did("create", 100, A))) == ["lost create"]


def test_a_create_that_another_one_overwrote_is_lost():
    assert kinds(history(did("create", 100, A), did("create", 110, B), final=B)) == ["lost create"]


def test_a_resurrected_delete():
    assert kinds(history(did("create", 100, A), did("delete", 110), final=A)) == ["resurrected delete"]


def test_a_topic_that_reads_showed_as_gone_and_returns():
    unknown = did("delete", 110, outcome="info")

    assert kinds(history(did("create", 100, A), unknown, did("read", 120, None), final=A)) == ["resurrected delete"]


@pytest.mark.parametrize("value", [A, replace(A, partitions=3), replace(A, value=2)])
def test_an_alter_lost_as_a_whole_or_in_part(value: TopicSeen):
    assert kinds(history(did("create", 100, A), did("alter", 110, ALTERED), final=value)) == ["lost alter"]


@pytest.mark.parametrize(
    ("change", "old", "new"),
    [
        (did("create", 100, A), None, A),
        (did("alter", 100, ALTERED), A, ALTERED),
        (did("delete", 100), A, None),
    ],
)
def test_a_stale_read_after_a_completed_change(change: TopicOperation, old: TopicSeen | None, new: TopicSeen | None):
    before = [] if change.action == "create" else [did("create", 50, A)]

    assert kinds(history(*before, change, did("read", 110, old), did("read", 120, new), final=new)) == ["stale read"]
    assert kinds(history(*before, change, did("read", 104, old), did("read", 120, new), final=new)) == []


def test_a_stale_listing_is_a_stale_read():
    checked = history(did("create", 100, A), final=A)
    checked.listings.insert(0, listing(110, {}))

    assert kinds(checked) == ["stale read"]


def test_reads_that_contradict_each_other_on_an_unknown_change():
    created, unknown = did("create", 100, A), did("alter", 110, ALTERED, outcome="info")

    assert kinds(history(created, unknown, did("read", 120, ALTERED), final=A)) == ["contradictory read"]


def test_concurrent_reads_may_differ_but_not_go_back():
    operations = [did("create", 100, A), did("alter", 110, ALTERED, took=50)]

    assert kinds(history(*operations, did("read", 115, A), did("read", 125, ALTERED), final=ALTERED)) == []
    assert kinds(history(*operations, did("read", 115, ALTERED), did("read", 125, A), final=ALTERED)) == ["stale read"]


@pytest.mark.parametrize("code", ["QUORUM_NOT_AVAILABLE", "INVALID_REPLICATION_FACTOR"])
def test_a_refused_change_that_shows(code: str):
    refused = did("alter", 110, ALTERED, outcome="fail", code=code)

    assert kinds(history(did("create", 100, A), refused, final=ALTERED)) == ["refused change shows"]
    assert kinds(history(did("create", 100, A), refused, final=A)) == []


def test_a_refused_change_that_a_local_read_shows():
    checked = history(did("create", 100, A), did("alter", 110, ALTERED, outcome="fail"), final=A)
    checked.listings.append(listing(120, {"t": ALTERED}, offset=7))

    assert kinds(checked) == ["refused change shows"]


@pytest.mark.parametrize(
    ("refused", "final"),
    [
        (did("create", 110, B, outcome="fail", code="TOPIC_ALREADY_EXISTS"), None),
        (did("alter", 110, B, outcome="fail", code="UNKNOWN_TOPIC_OR_PARTITION"), A),
        (did("alter", 110, replace(A, value=9), outcome="fail", code="INVALID_PARTITIONS"), A),
    ],
)
def test_a_refusal_that_says_what_was_not_so(refused: TopicOperation, final: TopicSeen | None):
    before = [did("create", 100, A)] if final else []

    assert kinds(history(*before, refused, final=final)) == ["contradictory answer"]


def test_two_deletions_of_one_topic_cannot_both_succeed():
    assert kinds(history(did("create", 100, A), did("delete", 110), did("delete", 120))) == ["contradictory answer"]


def test_an_answer_that_does_not_show_its_own_change():
    stale = replace(did("alter", 110, ALTERED), seen=A)

    assert kinds(history(did("create", 100, A), stale, final=ALTERED)) == ["stale read"]


@pytest.mark.parametrize("final", [A, ALTERED])
def test_an_unknown_alter_may_or_may_not_have_happened(final: TopicSeen):
    assert kinds(history(did("create", 100, A), did("alter", 110, ALTERED, outcome="info"), final=final)) == []


def test_an_unknown_change_may_happen_long_after_later_ones():
    operations = [did("create", 100, A), did("alter", 110, ALTERED, outcome="info"), did("read", 120, A)]
    later = replace(ALTERED, value=3)

    assert kinds(history(*operations, did("alter", 130, later), final=replace(later, value=2))) == []


@pytest.mark.parametrize("final", [None, A])
def test_an_unknown_create_or_delete_may_or_may_not_have_happened(final: TopicSeen | None):
    assert kinds(history(did("create", 100, A, outcome="info"), final=final)) == []
    assert kinds(history(did("create", 100, A), did("delete", 110, outcome="info"), final=final)) == []


def test_an_unknown_create_happens_once():
    operations = [did("create", 100, A, outcome="info"), did("read", 110, A), did("delete", 120)]

    assert kinds(history(*operations)) == []
    assert kinds(history(*operations, final=A)) == ["resurrected delete"]
    assert kinds(history(*operations, final=replace(A, topic_id="C"))) == ["contradictory read"]


def test_two_unknown_creates_do_not_make_one_id():
    operations = [did("create", 100, A, outcome="info"), did("create", 101, replace(A, value=2), outcome="info")]
    seen = [did("read", 110, A), did("delete", 120), did("read", 130, replace(A, value=2))]

    assert kinds(history(*operations, *seen, final=replace(A, value=2))) == ["resurrected delete"]


def test_a_value_that_nobody_wrote_is_a_phantom():
    assert kinds(history(did("create", 100, A), final=replace(A, value=99))) == ["phantom"]


def test_a_topic_that_nobody_created_is_a_phantom():
    checked = history(did("create", 100, A), final=A)
    checked.listings.append(listing(2_000, {"t": A, "ghost": B}, final=True))

    assert kinds(checked) == ["phantom"]


def test_an_id_belongs_to_one_creation_and_one_name():
    again = [did("create", 100, A), did("delete", 110), did("create", 120, A)]
    elsewhere = replace(did("create", 120, A), topic="u")

    assert kinds(history(*again, final=A)) == ["reused id"]
    assert "reused id" in kinds(history(did("create", 100, A), elsewhere, final=A))


def test_brokers_that_differ_at_one_offset():
    checked = history(did("create", 100, A), did("alter", 110, ALTERED), final=ALTERED)
    checked.listings += [
        listing(120, {"t": A}, offset=7),
        replace(listing(130, {"t": ALTERED}, offset=7), broker="broker-2"),
    ]

    assert kinds(checked) == ["contradictory read"]


def test_a_local_read_may_be_old_but_its_broker_does_not_go_back():
    checked = history(did("create", 100, A), did("alter", 110, ALTERED), final=ALTERED)
    checked.listings += [
        listing(120, {"t": ALTERED}, offset=8),
        replace(listing(130, {"t": A}, offset=7), broker="broker-2"),
    ]

    assert kinds(checked) == []

    checked.listings.append(listing(140, {"t": A}, offset=7))

    assert kinds(checked) == ["stale read"]


def test_a_history_that_proves_nothing_is_invalid():
    without_final = history(did("create", 100, A))
    without_final.listings.clear()
    without_alter = history()
    del without_alter.operations[1]

    for checked in (MetadataHistory(), without_final, without_alter):
        assert not check_metadata(checked).valid
        assert not check_metadata(checked).ok


def test_what_cannot_be_judged_is_not_passed():
    unknown = [did("alter", 100, replace(A, value=n, partitions=2 + n), outcome="info") for n in range(2, 30)]

    assert kinds(history(did("create", 90, A), *unknown, final=replace(A, value=99, partitions=50))) == ["undecided"]


def test_the_search_gives_up_rather_than_fill_the_memory():
    pending = [
        Operation(invoked_ns=0, completed_ns=None, steps=(lambda state, n=n: state | {n},), source=n) for n in range(20)
    ]
    impossible = Operation(invoked_ns=1, completed_ns=2, steps=(lambda _: None,), source=-1)

    with pytest.raises(TooManyConfigurationsError):
        explain(frozenset[int](), [*pending, impossible])
