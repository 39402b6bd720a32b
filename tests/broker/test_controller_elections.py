"""Administrative requests during an election of controllers, on a real cluster."""

from __future__ import annotations

import threading
import time
import urllib.request

import pytest

from raftlog.blocking import Admin
from raftlog.cli.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster


def leading(admin: Admin) -> tuple[str, int]:
    """Return the active controller's name, and the quorum's term."""
    quorum = admin.describe_quorum()
    return f"controller-{quorum.leader_id}", quorum.term


def leads(cluster: LocalCluster, name: str) -> bool:
    with urllib.request.urlopen(f"{cluster.node(name).internal.url}/metrics") as page:
        return b"\nraftlog_active_controller 1\n" in page.read()


@pytest.mark.parametrize("_", range(2))
def test_a_topic_is_created_though_its_controller_is_replaced_meanwhile(
    shared_cluster: LocalCluster, topic_name: str, _: int
):
    """Both followers are paused, so the leader can commit nothing, and resigns with the decision in its log."""
    with Admin(shared_cluster.bootstrap) as admin:
        leader, term = leading(admin)
        followers = [name for name in shared_cluster.controllers if name != leader]
        answers = list[object]()
        request = threading.Thread(target=lambda: answers.append(admin.create_topic(topic_name, replication_factor=3)))
        for name in followers:
            shared_cluster.pause(name)
        try:
            request.start()
            while leads(shared_cluster, leader):
                time.sleep(0.01)
        finally:
            for name in followers:
                shared_cluster.resume(name)
        request.join(30)

        assert [getattr(answer, "topic", answer) for answer in answers] == [topic_name]
        assert leading(admin)[1] > term
