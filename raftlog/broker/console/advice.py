"""What to do about each alert of the overview. Pure."""

from __future__ import annotations

_ADVICE = (
    ("no broker describes", "Check that the brokers run and that this broker reaches the controllers."),
    ("no active controller", "Start the controllers that are down: a majority of them must run."),
    (
        "without a leader",
        "Start the brokers of the partition's in-sync replicas. Until then it is unreadable.",
    ),
    ("refuse acks=all", "Start the brokers that are down. Producers with acks=all wait for an in-sync replica."),
    ("no answer from", "Check the process and the network of these nodes; raftlog doctor says what fails."),
    ("cannot be used", "Check the disk of the broker and its log; see the page on damaged disks."),
    ("fenced", "The controllers get no heartbeat of this broker. Start it, or check its network."),
    ("under-replicated", "Wait if a broker has just restarted. Otherwise look for a broker that is down or slow."),
    ("voters are not known", "See whether controllers are down, and whether this user may describe the cluster."),
    ("were not read", "Watch a cluster of so many nodes with Prometheus: its dashboards and alerts have all of them."),
    ("nearly full", "Shorten the retention of large topics, move partitions to another broker, or add space."),
)


def advice_for(alert: str) -> str:
    """Return what to do about an alert; a text for all others."""
    return next((advice for part, advice in _ADVICE if part in alert), "Run raftlog doctor: it says what to do.")
