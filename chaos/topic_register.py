"""One topic name as a register: the effect of each operation on it, and the meaning of an answer that none explains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from chaos.linearizability import Contradiction, Operation
from chaos.metadata_history import TopicOperation, TopicSeen
from raftlog.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class NameState:
    """What a name holds."""

    topic: TopicSeen | None = None
    """Its id is empty while only unknown creations can have made it; the first answer that shows the topic sets it."""
    guessed: frozenset[str] = frozenset()
    """Ids that were learnt from such an answer: no second topic has one of them."""


NOTHING = NameState()
Step: TypeAlias = Callable[[NameState], NameState | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """An operation as evidence about its name."""

    operation: TopicOperation
    final: bool = False


def register_operation(observation: Observation, created: frozenset[str]) -> Operation[NameState, Observation] | None:
    """Return an operation's effect on its name; None if it had none, and shows nothing.

    Args:
        created: ids that acknowledged creations made; an unknown creation cannot have made them.
    """
    operation = observation.operation
    steps: tuple[Step, ...] | None
    match operation.outcome:
        case "ok":
            steps = _acknowledged(operation, created)
        case "fail":
            steps = _refused(operation)
        case "info":
            steps = None if operation.action == "read" else (_effect(operation, ""),)
    if steps is None:
        return None
    completed = None if operation.outcome == "info" else operation.completed_ns
    return Operation(invoked_ns=operation.invoked_ns, completed_ns=completed, steps=steps, source=observation)


def _acknowledged(operation: TopicOperation, created: frozenset[str]) -> tuple[Step, ...]:
    shows = partial(_show, operation.seen, created)
    match operation.action:
        case "read":
            return (shows,)
        case "delete":
            return (_delete,)
        case "create" | "alter":
            return (_effect(operation, operation.seen.topic_id if operation.seen else ""), shows)


def _effect(operation: TopicOperation, topic_id: str) -> Step:
    match operation.action:
        case "create":
            return partial(
                _create, TopicSeen(topic_id=topic_id, partitions=operation.partitions or 0, value=operation.value)
            )
        case "alter":
            return partial(_alter, operation.partitions, operation.value)
        case _:
            return _delete


def _refused(operation: TopicOperation) -> tuple[Step, ...] | None:
    """Return what a refusal shows of the name. Most show nothing: the quorum was not available, for example."""
    match operation.code:
        case ErrorCode.TOPIC_ALREADY_EXISTS:
            return (lambda state: state if state.topic else None,)
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return (lambda state: None if state.topic else state,)
        case ErrorCode.INVALID_PARTITIONS:
            asked = operation.partitions or 0
            return (lambda state: state if state.topic and state.topic.partitions > asked else None,)
    return None


def _create(made: TopicSeen, state: NameState) -> NameState | None:
    return None if state.topic else replace(state, topic=made)


def _alter(partitions: int | None, value: int | None, state: NameState) -> NameState | None:
    if state.topic is None or (partitions is not None and partitions < state.topic.partitions):
        return None
    changed = replace(
        state.topic,
        partitions=state.topic.partitions if partitions is None else partitions,
        value=state.topic.value if value is None else value,
    )
    return replace(state, topic=changed)


def _delete(state: NameState) -> NameState | None:
    return replace(state, topic=None) if state.topic else None


def _show(seen: TopicSeen | None, created: frozenset[str], state: NameState) -> NameState | None:
    if seen is None or state.topic is None or state.topic.topic_id:
        return state if seen == state.topic else None
    if replace(state.topic, topic_id=seen.topic_id) != seen or seen.topic_id in created | state.guessed:
        return None
    return NameState(topic=seen, guessed=state.guessed | {seen.topic_id})


def diagnosis(
    contradiction: Contradiction[NameState, Observation], observations: Sequence[Observation]
) -> tuple[str, str]:
    """Return the kind of broken promise of an answer that no order explains, and the evidence."""
    observation = contradiction.operation
    operation = observation.operation
    possible = [state.topic for state in contradiction.possible]
    kind = _kind(operation, possible, observations)
    said = operation.code or (f"showed {_text(operation.seen)}" if operation.action != "delete" else "succeeded")
    could = ", ".join(map(_text, possible[:3])) + (", ..." if len(possible) > 3 else "")
    return kind, (
        f"{operation.action} by {operation.process} at {operation.broker}, {operation.invoked_ns} to "
        f"{operation.completed_ns}, {said}; possible was: {could}"
    )


def _kind(operation: TopicOperation, possible: Sequence[TopicSeen | None], observations: Sequence[Observation]) -> str:
    if operation.outcome == "fail" or operation.action == "delete":
        return "contradictory answer"
    seen = operation.seen
    if seen is not None and (kind := _never_written(seen, observations)):
        return kind
    later = [o.operation for o in observations if o.operation.invoked_ns > operation.completed_ns]
    reads = [read for read in later if read.action == "read" and read.outcome == "ok" and read.seen != seen]
    if any(_fits(read.seen, possible) for read in reads):
        return "stale read"
    if seen is None:
        return "lost create"
    if _resurrected(seen, observations, operation.invoked_ns):
        return "resurrected delete"
    expected = [topic for topic in possible if topic is not None]
    if all(_acknowledged_before(topic, observations, operation.invoked_ns) for topic in expected) and expected:
        return "lost alter" if any(topic.topic_id == seen.topic_id for topic in expected) else "lost create"
    return "contradictory read"


def _never_written(seen: TopicSeen, observations: Sequence[Observation]) -> str:
    outcomes = {o.operation.outcome for o in observations if o.operation.value == seen.value is not None}
    if not outcomes:
        return "phantom"
    return "refused change shows" if outcomes == {"fail"} else ""


def _fits(seen: TopicSeen | None, possible: Sequence[TopicSeen | None]) -> bool:
    if seen is None:
        return None in possible
    return any(
        topic is not None and replace(topic, topic_id=topic.topic_id or seen.topic_id) == seen for topic in possible
    )


def _resurrected(seen: TopicSeen, observations: Sequence[Observation], before_ns: int) -> bool:
    """Return whether an earlier answer shows that the topic was deleted, after others had shown it."""
    shown = min((o.operation.invoked_ns for o in observations if _shows(o, seen.topic_id)), default=before_ns)
    return any(
        shown < o.operation.completed_ns < before_ns
        and o.operation.outcome == "ok"
        and _shows_without(o, seen.topic_id)
        for o in observations
    )


def _shows(observation: Observation, topic_id: str) -> bool:
    seen = observation.operation.seen
    return seen is not None and seen.topic_id == topic_id


def _shows_without(observation: Observation, topic_id: str) -> bool:
    operation = observation.operation
    return operation.action == "delete" or (operation.action == "read" and not _shows(observation, topic_id))


def _acknowledged_before(topic: TopicSeen, observations: Sequence[Observation], before_ns: int) -> bool:
    return any(
        o.operation.outcome == "ok" and o.operation.completed_ns < before_ns and o.operation.value == topic.value
        for o in observations
        if o.operation.action != "read"
    )


def _text(topic: TopicSeen | None) -> str:
    if topic is None:
        return "no topic"
    return f"{topic.topic_id or 'a topic'} with {topic.partitions} partitions and value {topic.value}"
