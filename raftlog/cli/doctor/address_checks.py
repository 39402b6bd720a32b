"""The checks of addresses: can they be dialled, does their certificate end soon, do they enforce access rules? Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from raftlog.cli.doctor.clocks import seconds
from raftlog.cli.doctor.facts import ClusterFacts, ListenerFacts, NodeFacts
from raftlog.cli.doctor.findings import Finding, Severity, named
from raftlog.model import Address
from raftlog.transport.pacing import is_loopback

DOCS = "docs/how-to/check-a-cluster.md"
CERTIFICATE_WARN_S, CERTIFICATE_ERROR_S = 30 * 86_400, 7 * 86_400


def authorizer_finding(where: str, mode: str, listeners: Sequence[str]) -> Finding:
    """Return the finding for a listener that other machines reach, and that enforces no access rules."""
    return Finding(
        severity="warning",
        check="access rules",
        where=where,
        found=f"security.authorizer is {mode}, and other machines reach {named(listeners)}: any of them may do all",
        advice="Require passwords, tokens or certificates, and enforce access rules; or close the port.",
        docs="docs/how-to/control-access.md",
    )


def is_local(url: str) -> bool:
    """Return whether a URL names this machine's loopback."""
    try:
        host = Address.of_url(url).host
    except ValueError:
        return False
    return host == "localhost" or is_loopback(host)


def check_listener(facts: ClusterFacts, node: NodeFacts, listener: ListenerFacts) -> Iterator[Finding]:
    """Say whether an advertised address can be dialled from here, and when its certificate ends."""
    yield from check_certificate(facts.now_s, f"{node.name}, {listener.url}", listener.certificate_end_s)
    if not listener.error:
        return
    if listener.listener == "public":
        severity: Severity = "error"
        advice = "Start the broker; or correct advertised.public, the firewall or the certificate: clients dial it."
    else:
        severity = "error" if facts.on_node else "note"
        advice = "Other nodes must reach it. Clients need not: a firewall may be the reason."
    yield Finding(
        severity=severity,
        check="addresses",
        where=f"{node.name}, {listener.listener} listener",
        found=f"{listener.url}: {listener.error}",
        advice=advice,
        docs=DOCS,
    )


def check_certificate(now_s: float, where: str, end_s: float | None) -> Iterator[Finding]:
    """Say whether a certificate ends soon: 30 days are a warning, 7 an error."""
    if end_s is None:
        return
    left = end_s - now_s
    if left >= CERTIFICATE_WARN_S:
        found = f"valid for {seconds(left)} more"
        yield Finding(severity="ok", check="certificates", where=where, found=found)
        return
    yield Finding(
        severity="error" if left < CERTIFICATE_ERROR_S else "warning",
        check="certificates",
        where=where,
        found=f"ended {seconds(-left)} ago" if left < 0 else f"ends in {seconds(left)}",
        advice="Issue a new one, replace the file, and send the node SIGHUP; it needs no restart.",
        docs="docs/how-to/encrypt-connections.md",
    )
