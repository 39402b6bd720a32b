"""Links that hold their bytes, one way or both, are slow, or are reset, sometimes in the middle of an answer."""

from __future__ import annotations

from collections.abc import Iterable

from simulation.cluster.faults.hands import LASTS_S, Hands, coordinator_fault, fault
from simulation.cluster.net import Link


@fault
def isolate(hands: Hands) -> None:
    """One node reaches no other one; clients still reach it."""
    _split(hands, {hands.anybody().host})


@fault
def isolate_leader(hands: Hands) -> None:
    """The same with a leader."""
    if (leader := hands.leader()) is not None:
        _split(hands, {leader.host})


@fault
def isolate_controller(hands: Hands) -> None:
    """The same with the active controller."""
    if (active := hands.active()) is not None:
        _split(hands, {active.host})


@fault
def partition(hands: Hands) -> None:
    """Two parts that do not reach each other."""
    hosts = _nodes(hands)
    _split(hands, set(hands.dice.sample(hosts, hands.dice.randint(1, len(hosts) - 1))))


@fault
def no_controllers(hands: Hands) -> None:
    """Hold the bytes between a broker, mostly a leader, and the controllers, sometimes only one way."""
    broker = (hands.leader() if hands.dice.random() < 0.7 else None) or hands.dice.choice(hands.world.brokers)
    _split(hands, {broker.host}, [node.host for node in hands.world.controllers])


@coordinator_fault
def replaced_coordinator(hands: Hands) -> None:
    """A coordinator that no controller reaches is replaced, and does not know it; brokers and clients reach both."""
    if (broker := hands.coordinator()) is not None:
        session_s = hands.world.settings.broker_session_timeout_ms / 1000
        links = {(broker.host, node.host) for node in hands.world.controllers}
        hands.note(f"hold {broker.host} from the controllers")
        _hold(hands, links | {(there, here) for here, there in links}, (session_s, session_s + 8))


@fault
def no_peers(hands: Hands) -> None:
    """Hold the bytes between a broker and all other brokers, sometimes only one way; the controllers reach it."""
    broker = (hands.leader() if hands.dice.random() < 0.5 else None) or hands.dice.choice(hands.world.brokers)
    _split(hands, {broker.host}, [node.host for node in hands.world.brokers])


@fault
def ring(hands: Hands) -> None:
    """Every node reaches two neighbours only: each has a majority, and no two have the same."""
    hosts = _nodes(hands)
    hands.dice.shuffle(hosts)
    neighbours = {(one, hosts[at - 1]) for at, one in enumerate(hosts)}
    cut = {(a, b) for a in hosts for b in hosts if a != b and (a, b) not in neighbours and (b, a) not in neighbours}
    hands.note(f"a ring of {hosts}")
    _hold(hands, cut)


@fault
def cut(hands: Hands) -> None:
    """Two machines that do not reach each other."""
    one, other = hands.two_hosts()
    hands.note(f"hold {one} {other}")
    _hold(hands, {(one, other), (other, one)})


@fault
def cut_one_way(hands: Hands) -> None:
    """One machine that does not reach another."""
    one, other = hands.two_hosts()
    hands.note(f"hold {one} > {other}")
    _hold(hands, {(one, other)})


@fault
def stall(hands: Hands) -> None:
    """What one machine has sent to others arrives late; what it sends over new connections does not."""
    node = hands.somebody()
    links = {(node.host, other) for other in _nodes(hands) if other != node.host}
    if hands.dice.random() < 0.5:
        links = {(other, one) for one, other in links}
    hands.note(f"stall {sorted(links)}")
    release = hands.world.net.stall(links)

    def end() -> None:
        hands.note("end a stall")
        release()

    hands.later(end)


@fault
def reset(hands: Hands) -> None:
    """All connections between two machines are reset."""
    one, other = hands.two_hosts()
    hands.note(f"reset {one} {other}")
    hands.world.net.reset((one, other))


@fault
def truncate(hands: Hands) -> None:
    """The next piece from one machine to another arrives in part, and then the connection is reset."""
    one, other = hands.two_hosts()
    hands.note(f"cut what {one} sends {other} next")
    hands.world.net.truncate((one, other), hands.dice)


@fault
def slow(hands: Hands) -> None:
    """A slow link."""
    one, other = hands.two_hosts()
    seconds = hands.dice.choice((0.05, 0.3, 1.2))
    hands.note(f"slow {one} > {other} by {seconds} s")
    hands.world.net.slow[one, other] = seconds
    hands.later(lambda: hands.world.net.slow.pop((one, other), None))


def _nodes(hands: Hands) -> list[str]:
    return [node.host for node in hands.world.nodes.values()]


def _split(hands: Hands, some: set[str], others: Iterable[str] = ()) -> None:
    """Hold all bytes between these and others (all other nodes); sometimes only one way."""
    rest = [host for host in others or _nodes(hands) if host not in some]
    out = {(one, other) for one in some for other in rest}
    kind = hands.dice.choice(("both", "both", "out", "in"))
    links = (out if kind != "in" else set()) | ({link[::-1] for link in out} if kind != "out" else set())
    hands.note(f"hold {kind} between {sorted(some)} and {sorted(rest)}")
    _hold(hands, {(link[0], link[1]) for link in links})


def _hold(hands: Hands, links: set[Link], lasts: tuple[float, float] = LASTS_S) -> None:
    hands.world.net.hold(links)
    reset_too = hands.dice.random() < 0.3

    def release() -> None:
        hands.note(f"release {len(links)} links")
        if reset_too:
            for link in sorted(links):
                hands.world.net.reset(link)
        hands.world.net.release(links)

    hands.later(release, lasts)
