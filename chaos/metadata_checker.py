"""Judges the clients' answers about topics, while several clients created, altered and deleted the same names.

The rules:

1. **Each name is a linearizable register.** It holds nothing, or one topic: id, number of partitions, value (its
   retention_ms). Some order of all operations on the name, each at one instant between its invocation and its
   completion, explains every answer (`linearizability`). In particular no acknowledged change is lost, no read goes
   back in time, and a deleted topic stays deleted.
2. **Acknowledged** changes took effect: a creation where there was no topic, an alteration or deletion where there was
   one. What an answer shows of the topic was true after the change and before the answer.
3. **Unknown** changes took effect once, at any time after their invocation (after the run, too), or never.
4. **Refused** changes did not take effect, not even in part. A refusal that describes the topic (it exists, it does not
   exist, it has more partitions) was true at one instant, as a read is.
5. **Ids:** two creations never make the same one, and an id never has two names.
6. **Local reads** (`GET /v1/metadata`) may be old, but show no value that was never decided. The offset that one broker
   reports never goes back; and at the same offset every broker shows the same.

Listings of all topics count as one read of each name. A history is invalid without acknowledged creations, alterations
and deletions, or without final listings: it proves nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from chaos.checker import Anomaly, Verdict
from chaos.linearizability import TooManyConfigurationsError, explain
from chaos.metadata_history import CHANGES, Listing, MetadataHistory, TopicOperation, TopicSeen
from chaos.topic_register import NOTHING, Observation, diagnosis, register_operation


def check_metadata(history: MetadataHistory) -> Verdict:
    """Run every check over one history."""
    changes = [operation for operation in history.operations if operation.action in CHANGES]
    done = {operation.action for operation in changes if operation.outcome == "ok"}
    verdict = Verdict(
        valid=done == {*CHANGES} and any(listing.final for listing in history.listings),
        acknowledged=sum(change.outcome == "ok" for change in changes),
        unknown=sum(change.outcome == "info" for change in changes),
        failed=sum(change.outcome == "fail" for change in changes),
        read=sum(operation.action == "read" and operation.outcome == "ok" for operation in history.operations)
        + len(history.listings),
    )
    for find in CHECKS:
        verdict.anomalies.extend(find(history))
    return verdict


def unexplained(history: MetadataHistory) -> Iterable[Anomaly]:
    """Find names whose answers no order of operations explains (rules 1 to 4): the first such answer of each."""
    created = frozenset(op.seen.topic_id for op in history.operations if op.action == "create" and op.seen)
    for name, observations in sorted(_by_name(history).items()):
        operations = [found for each in observations if (found := register_operation(each, created)) is not None]
        try:
            contradiction = explain(NOTHING, operations)
        except TooManyConfigurationsError as error:
            yield Anomaly("undecided", f"{name}: {error}")
            continue
        if contradiction is not None:
            kind, detail = diagnosis(contradiction, observations)
            yield Anomaly(kind, f"{name}: {detail}")


def reused_ids(history: MetadataHistory) -> Iterable[Anomaly]:
    """Find ids that two creations made, or that two names have (rule 5)."""
    names: dict[str, set[str]] = defaultdict(set)
    creations: dict[str, int] = defaultdict(int)
    for name, seen in _everything_seen(history):
        names[seen.topic_id].add(name)
    for operation in history.operations:
        if operation.action == "create" and operation.seen is not None:
            creations[operation.seen.topic_id] += 1
    for topic_id, found in sorted(names.items()):
        if len(found) > 1:
            yield Anomaly("reused id", f"{topic_id} is the id of {sorted(found)}")
        if creations[topic_id] > 1:
            yield Anomaly("reused id", f"{topic_id} was made by {creations[topic_id]} creations")


def never_decided(history: MetadataHistory) -> Iterable[Anomaly]:
    """Find values in local reads that were never written, or whose change was refused (rule 6)."""
    outcomes: dict[tuple[str, int | None], str] = {(op.topic, op.value): op.outcome for op in history.operations}
    shown = {
        (name, seen.value): listing
        for listing in history.listings
        if listing.metadata_offset is not None
        for name, seen in listing.topics.items()
    }
    for (name, value), listing in shown.items():
        outcome = outcomes.get((name, value))
        if outcome in (None, "fail"):
            kind = "refused change shows" if outcome else "phantom"
            yield Anomaly(kind, f"{name}: {listing.broker} shows the value {value} at {listing.metadata_offset}")


def contradictory_images(history: MetadataHistory) -> Iterable[Anomaly]:
    """Find offsets at which two local reads show different topics (rule 6)."""
    known: dict[int, Listing] = {}
    for listing in history.listings:
        if listing.metadata_offset is None:
            continue
        first = known.setdefault(listing.metadata_offset, listing)
        differing = sorted(
            name for name in {*first.topics, *listing.topics} if first.topics.get(name) != listing.topics.get(name)
        )
        if differing:
            brokers = f"{first.broker} and {listing.broker}"
            yield Anomaly(
                "contradictory read", f"at offset {listing.metadata_offset} {brokers} differ on {differing[:3]}"
            )


def images_that_go_back(history: MetadataHistory) -> Iterable[Anomaly]:
    """Find brokers whose offset was lower in a local read than in one that was answered before it (rule 6)."""
    local = [listing for listing in history.listings if listing.metadata_offset is not None]
    events = [(one.completed_ns, 1, number) for number, one in enumerate(local)]
    events += [(one.invoked_ns, 0, number) for number, one in enumerate(local)]
    highest: dict[str, int] = {}
    floors: dict[int, int] = {}
    for _, completes, number in sorted(events):
        broker, offset = local[number].broker, local[number].metadata_offset or 0
        if not completes:
            floors[number] = highest.get(broker, -1)
            continue
        if offset < floors[number]:
            yield Anomaly("stale read", f"{broker} went back from offset {floors[number]} to {offset}")
        highest[broker] = max(highest.get(broker, -1), offset)


CHECKS: tuple[Callable[[MetadataHistory], Iterable[Anomaly]], ...] = (
    unexplained,
    reused_ids,
    never_decided,
    contradictory_images,
    images_that_go_back,
)


def _by_name(history: MetadataHistory) -> dict[str, list[Observation]]:
    """Return the history of each name: its own operations, and its part of every linearizable listing."""
    found: dict[str, list[Observation]] = {op.topic: [] for op in history.operations}
    linearizable = [listing for listing in history.listings if listing.metadata_offset is None]
    for listing in linearizable:
        found.update({name: [] for name in listing.topics if name not in found})
    for operation in history.operations:
        found[operation.topic].append(Observation(operation=operation))
    for name, observations in found.items():
        first = min((each.operation.invoked_ns for each in observations), default=-1)
        observations.extend(_part(name, listing) for listing in linearizable if listing.completed_ns > first)
    return found


def _part(name: str, listing: Listing) -> Observation:
    read = TopicOperation(
        process=listing.process,
        broker=listing.broker,
        action="read",
        topic=name,
        invoked_ns=listing.invoked_ns,
        completed_ns=listing.completed_ns,
        outcome="ok",
        seen=listing.topics.get(name),
    )
    return Observation(operation=read, final=listing.final)


def _everything_seen(history: MetadataHistory) -> Iterable[tuple[str, TopicSeen]]:
    for operation in history.operations:
        if operation.seen is not None:
            yield operation.topic, operation.seen
    for listing in history.listings:
        yield from listing.topics.items()
