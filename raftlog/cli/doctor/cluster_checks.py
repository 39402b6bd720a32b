"""The checks of a cluster: facts in, findings out. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from raftlog.cli.doctor.address_checks import authorizer_finding, check_certificate, check_listener, is_local
from raftlog.cli.doctor.clocks import check_clocks, seconds
from raftlog.cli.doctor.facts import ClusterFacts, ListenerFacts
from raftlog.cli.doctor.findings import Finding, Severity, failed, named
from raftlog.cli.doctor.node_checks import check_node
from raftlog.cli.terminal import clipped
from raftlog.wire.admin import QuorumResponse, VoterStatus
from raftlog.wire.metadata import PartitionInfo

DOCS = "docs/how-to/check-a-cluster.md"
REPLACE_BROKER = "docs/how-to/replace-a-broker.md"
REPLACE_CONTROLLER = "docs/how-to/replace-a-controller.md"
ACCESS = "docs/how-to/control-access.md"
ISR = "docs/explanation/isr-and-elr.md"
UPGRADE = "docs/how-to/run-in-production.md"
VOTER_LAG = 1_000
"""Entries; the alert RaftlogVoterBehind has the same limit."""
SILENT_MS = 5_000


def check_cluster(facts: ClusterFacts) -> list[Finding]:
    """Return what is found in a cluster."""
    findings = [finding for listener in facts.bootstrap for finding in _bootstrap(facts, listener)]
    if facts.cluster is None:
        return findings
    findings += _brokers(facts)
    findings += _quorum(facts)
    findings += _partitions(facts)
    findings += check_clocks(facts.nodes)
    findings += _versions(facts)
    findings += _authorizers(facts)
    for node in facts.nodes:
        for listener in node.listeners:
            findings += check_listener(facts, node, listener)
        findings += check_node(node)
    urls = [listener for node in facts.nodes for listener in node.listeners]
    if urls and not any(listener.error for listener in urls):
        found = f"all {len(urls)} advertised addresses can be dialled from here"
        findings.append(Finding(severity="ok", check="addresses", where="the cluster", found=found))
    for part, why in facts.failures.items():
        if part != "quorum":
            findings.append(failed(part, "the cluster", why))
    if facts.left_out:
        found = f"{facts.left_out:,} nodes beyond the limit were not looked at"
        findings.append(Finding(severity="note", check="nodes", where="the cluster", found=found))
    return findings


def _bootstrap(facts: ClusterFacts, listener: ListenerFacts) -> Iterator[Finding]:
    if not listener.error:
        return
    yield from check_certificate(facts.now_s, listener.url, listener.certificate_end_s)
    severity: Severity = "error" if facts.cluster is None else "warning"
    yield Finding(
        severity=severity,
        check="bootstrap",
        where=listener.url,
        found=listener.error,
        advice="Start the broker, or correct the URL or the credentials: see raftlog config show.",
        docs="docs/reference/command-line.md",
    )


def _brokers(facts: ClusterFacts) -> Iterator[Finding]:
    assert facts.cluster is not None
    brokers = facts.cluster.brokers
    for broker in brokers:
        if broker.fenced:
            yield Finding(
                severity="error",
                check="brokers",
                where=f"broker {broker.broker_id}",
                found="it is fenced: its heartbeats do not arrive, so it leads nothing",
                advice="See whether its process runs and what its log says. Unregister it if it is gone for good.",
                docs=REPLACE_BROKER,
            )
    registered = {broker.broker_id for broker in brokers}
    partitions = [each for topic in facts.topics or () for each in topic.partitions]
    missing = Counter(replica for each in partitions for replica in each.replicas if replica not in registered)
    for broker_id, replicas in missing.most_common():
        yield Finding(
            severity="error",
            check="brokers",
            where=f"broker {broker_id}",
            found=f"{replicas:,} partitions have a replica on it, and it is not registered",
            advice="Start it, or move its replicas to other brokers.",
            docs=REPLACE_BROKER,
        )
    if not brokers:
        found = "no broker is registered"
        yield Finding(severity="error", check="brokers", where="the cluster", found=found, docs=DOCS)
    elif not missing and not any(broker.fenced for broker in brokers):
        found = f"{len(brokers)} registered, none fenced"
        yield Finding(severity="ok", check="brokers", where="the cluster", found=found)


def _quorum(facts: ClusterFacts) -> Iterator[Finding]:
    quorum = facts.quorum
    if quorum is None:
        if why := facts.failures.get("quorum", ""):
            yield Finding(
                severity="error",
                check="quorum",
                where="the cluster",
                found=f"no active controller answered: {why}",
                advice="Start the controllers that are down, so that a majority runs.",
                docs=REPLACE_CONTROLLER,
            )
        return
    voters = quorum.voters
    if len(voters) % 2 == 0:
        yield _voters_finding("warning", voters, "an even number survives no more failures than one voter less")
    elif len(voters) == 1:
        yield _voters_finding("note", voters, "without the only one, no topic or leader changes")
    behind = [finding for voter in voters for finding in _voter(quorum, voter)]
    yield from behind
    if not behind and voters:
        rest = ", the only voter" if len(voters) == 1 else f" {len(voters)} voters, all caught up"
        found = f"controller {quorum.leader_id} leads{rest}"
        yield Finding(severity="ok", check="quorum", where="the cluster", found=found)


def _voters_finding(severity: Severity, voters: Sequence[VoterStatus], why: str) -> Finding:
    found = f"voters: {named(voter.node_id for voter in voters)}; {why}"
    advice = "Run three or five controllers; the voters are fixed when a cluster is made."
    return Finding(severity=severity, check="quorum", where="the cluster", found=found, advice=advice, docs=UPGRADE)


def _voter(quorum: QuorumResponse, voter: VoterStatus) -> Iterator[Finding]:
    heard = "never" if voter.last_heard_ms < 0 else f"{seconds(voter.last_heard_ms / 1_000)} ago"
    if voter.role == "unreachable":
        yield Finding(
            severity="error",
            check="quorum",
            where=f"controller {voter.node_id}",
            found=f"the leader, controller {quorum.leader_id}, does not reach it; its last message: {heard}",
            advice="Start it, or look at the network between the controllers.",
            docs=REPLACE_CONTROLLER,
        )
    elif voter.role == "catching up" or voter.lag > VOTER_LAG or voter.last_heard_ms > SILENT_MS:
        yield Finding(
            severity="warning",
            check="quorum",
            where=f"controller {voter.node_id}",
            found=f"{voter.role}, {voter.lag:,} entries behind the leader; its last message: {heard}",
            advice="Wait until it has caught up. If it does not, look at its disk and its network.",
            docs=REPLACE_CONTROLLER,
        )


def _partitions(facts: ClusterFacts) -> Iterator[Finding]:
    topics = facts.topics or ()
    partitions = [(f"{topic.topic}-{each.partition}", each) for topic in topics for each in topic.partitions]
    offline = [name for name, each in partitions if each.leader < 0]
    under = [(name, each) for name, each in partitions if each.leader >= 0 and len(each.isr) < len(each.replicas)]
    if offline:
        yield Finding(
            severity="error",
            check="partitions",
            where=named(offline),
            found=f"{len(offline):,} of {len(partitions):,} partitions have no leader: nothing is read or written",
            advice="Start the brokers of the ISR and the ELR, which raftlog topics describe shows.",
            docs=ISR,
        )
    if under:
        yield Finding(
            severity="warning",
            check="partitions",
            where=named(name for name, _ in under),
            found=f"{len(under):,} of {len(partitions):,} partitions lack an in-sync replica; {_lagging(under)}",
            advice="Look for a broker that is down or slow.",
            docs=ISR,
        )
    refusing = {node.name: node.metrics.total("raftlog_under_min_isr_partitions") for node in facts.nodes}
    for name, count in refusing.items():
        if count > 0:
            yield Finding(
                severity="error",
                check="partitions",
                where=name,
                found=f"{count:,.0f} partitions that it leads are under min_insync_replicas: they refuse acks=all",
                advice="Look for brokers that are down or slow, and start them.",
                docs=ISR,
            )
    unseen = list(_unseen(facts, seen=len(partitions), offline=len(offline), under=len(under)))
    yield from unseen
    well = not offline and not under and not unseen and not any(count > 0 for count in refusing.values())
    if well and facts.topics is not None:
        found = f"{len(partitions):,} partitions are listed, every replica in sync"
        yield Finding(severity="ok", check="partitions", where="the cluster", found=found)


def _unseen(facts: ClusterFacts, *, seen: int, offline: int, under: int) -> Iterator[Finding]:
    """Return what metrics tell of partitions that are not listed: those of topics that the user may not describe.

    Args:
        seen: partitions that are listed; of those, how many are offline and under-replicated.
    """
    controllers = [node.metrics for node in facts.nodes if node.metrics.each("raftlog_cluster_partitions")]
    controllers = [each for each in controllers if each.total("raftlog_active_controller")] or controllers
    counted = max((round(each.total("raftlog_cluster_partitions")) for each in controllers), default=0)
    if not controllers:  # Their listener is not reachable from a client's machine: what brokers host is fewer, or all.
        replicas = max((round(node.metrics.total("raftlog_partitions")) for node in facts.nodes), default=0)
        counted = max(replicas, _total(facts, "raftlog_partitions_led"))
    if counted <= seen:
        return
    lost = max((round(each.total("raftlog_cluster_offline_partitions")) for each in controllers), default=0)
    lacking = _total(facts, "raftlog_under_replicated_partitions")
    counts: tuple[tuple[Severity, int, int, str], ...] = (
        ("error", lost, offline, "have no leader, as metrics say: nothing is read or written"),
        ("warning", lacking, under, "lack an in-sync replica, as metrics say"),
        ("note", counted - seen, 0, "were not visible to this user"),
    )
    for severity, count, listed, text in counts:
        if count > listed:
            yield Finding(
                severity=severity,
                check="partitions",
                where="the cluster",
                found=f"{count:,} of {counted:,} partitions {text}",
                advice="Run doctor as a user who may describe all topics: it names the partitions.",
                docs=ACCESS,
            )


def _total(facts: ClusterFacts, metric: str) -> int:
    return round(sum(node.metrics.total(metric) for node in facts.nodes))


def _lagging(under: Sequence[tuple[str, PartitionInfo]]) -> str:
    lacking = Counter(broker for _, each in under for broker in {*each.replicas} - {*each.isr})
    return f"not in sync: broker {named(broker for broker, _ in lacking.most_common())}"


def _versions(facts: ClusterFacts) -> Iterator[Finding]:
    by_version: dict[str, list[str]] = {}
    for node in facts.nodes:
        if node.version:
            by_version.setdefault(node.version, []).append(node.name)
    if len(by_version) > 1:
        found = "; ".join(
            f"{clipped(version, 40)}: {named(nodes)}" for version, nodes in sorted(by_version.items())[:9]
        )
        advice = "Finish the upgrade: nodes of two versions run side by side only for a while."
        yield Finding(
            severity="warning", check="versions", where="the cluster", found=found, advice=advice, docs=UPGRADE
        )
    elif by_version:
        (version,) = by_version
        found = f"every node runs {version}"
        yield Finding(severity="ok", check="versions", where="the cluster", found=found)
    level = facts.features
    if level is not None and level.feature_level < level.max_feature_level:
        yield Finding(
            severity="note",
            check="feature level",
            where="the cluster",
            found=f"the level in force is {level.feature_level}, and the nodes support {level.max_feature_level}",
            advice="After an upgrade of all nodes, raise it with PATCH /v1/features. It only grows.",
            docs=UPGRADE,
        )


def _authorizers(facts: ClusterFacts) -> Iterator[Finding]:
    for node in facts.nodes:
        urls = [each.url for each in node.listeners if each.listener == "public" and not is_local(each.url)]
        if node.authorizer in ("off", "log-only") and urls:
            yield authorizer_finding(node.name, node.authorizer, urls)
