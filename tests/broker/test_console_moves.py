"""Moves of replicas in the console: a plan first, progress, a limit, and the way back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_support import Http, http_to
from console_support import LOOKS, opened, page_of, require_accessible
from playwright.async_api import Page, expect

from raftlog import Admin
from raftlog.cli.local_cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.console]
THROTTLE = "reassignment_throttle_bytes_per_second"


async def replicas(http: Http, topic: str) -> list[list[int]]:
    found = (await http("GET", f"/v1/topics/{topic}")).json["partitions"]
    return [one["replicas"] for one in found]


async def filled(http: Http, topic: str, requests: int, size: int = 100_000) -> None:
    for number in range(requests):
        assert (await http.produce(topic, str(number % 10) * size, partition=0)).status == 200


async def choose(page: Page, *brokers: int) -> None:
    group = page.get_by_role("group", name="Brokers that shall have replicas")
    await expect(group.get_by_role("checkbox")).to_have_count(3)
    for number in (1, 2, 3):
        await group.get_by_role("checkbox", name=f"Broker {number}").set_checked(number in brokers)


@pytest.fixture
async def http(shared_cluster: LocalCluster):
    async with http_to(shared_cluster.public_url("broker-1")) as found:
        yield found
        await found("PATCH", "/v1/brokers/default/configs", json={"configs": {THROTTLE: None}})


@pytest.mark.timeout(180)
async def test_a_move_has_a_plan_is_watched_cancelled_and_done(
    shared_cluster: LocalCluster, topic_name: str, http: Http
):
    url = shared_cluster.public_url("broker-1")
    async with Admin(url) as admin, page_of(url) as page:
        await http.create(topic_name, partitions=2, replication_factor=1)
        await filled(http, topic_name, 40)
        before = await replicas(http, topic_name)
        goal = before[0][0] % 3 + 1
        await opened(page, url, "topics", topic_name)
        await choose(page, goal)
        await page.get_by_label("Partitions to move").fill("0")
        await page.get_by_label("Copy at most").fill("20 kB/s")
        await page.get_by_role("button", name="Show the moves").click()
        await expect(page.get_by_text("1 of 1 partitions change. 4 MB are copied.")).to_contain_text(
            "20 kB/s from then on"
        )
        cells = page.get_by_role("region", name="Plan of the moves").get_by_role("row").nth(1).get_by_role("cell")
        await expect(cells.nth(3)).to_have_text(str(goal))
        await expect(cells.nth(4)).to_have_text(str(before[0][0]))
        assert await replicas(http, topic_name) == before
        assert await admin.reassignments() == []

        await page.get_by_role("button", name="Start this move").click()
        moving = page.get_by_role("region", name="Moves in progress").get_by_role("row").nth(1)
        await expect(moving).to_contain_text("%", timeout=15_000)
        await expect(page.get_by_text("1 partition moves:")).to_contain_text("Each broker copies at most 20 kB/s.")
        assert [one.partition for one in await admin.reassignments()] == [0]
        await moving.get_by_role("button", name="Cancel the move of partition 0").click()
        await expect(page.get_by_text("No replica of this topic moves any more.")).to_be_visible(timeout=15_000)
        assert await replicas(http, topic_name) == before

        await page.get_by_role("button", name="Show the moves").click()
        await page.get_by_role("button", name="Start this move").click()
        await page.get_by_role("button", name="Remove the limit").click()
        await expect(page.get_by_text("No replica of this topic moves any more.")).to_be_visible(timeout=60_000)
        assert await replicas(http, topic_name) == [[goal], before[1]]
        assert THROTTLE not in (await http("GET", "/v1/brokers/default/configs")).json["configs"]


async def test_a_whole_topic_gets_more_replicas_and_mistakes_are_named(
    shared_cluster: LocalCluster, topic_name: str, http: Http
):
    url = shared_cluster.public_url("broker-2")
    async with page_of(url) as page:
        await http.create(topic_name, partitions=6, replication_factor=1)
        await opened(page, url, "topics", topic_name)
        await choose(page, 1, 2, 3)
        await page.get_by_label("Replicas of each").fill("4")
        await page.get_by_role("button", name="Show the moves").click()
        problem = page.locator("main [role=alert]:not(:empty)")
        await expect(problem).to_contain_text("expected 1 to 3, the number of chosen brokers, received 4")
        await page.get_by_label("Partitions to move").fill("0-9")
        await page.get_by_role("button", name="Show the moves").click()
        await expect(problem).to_contain_text("there are 0 to 5, received 0-9")
        await page.get_by_label("Partitions to move").fill("all")
        await page.get_by_label("Replicas of each").fill("2")
        await page.get_by_role("button", name="Show the moves").click()
        await expect(page.get_by_text("6 of 6 partitions change.")).to_be_visible()
        await page.get_by_label("Replicas of each").fill("3")
        await expect(page.get_by_text("6 of 6 partitions change.")).to_have_count(0)
        await page.get_by_role("button", name="Show the moves").click()
        await page.get_by_role("button", name="Start these moves").click()
        await expect(page.get_by_text("6 moves have begun.")).to_be_visible()
        await expect(page.get_by_text("No replica of this topic moves any more.")).to_be_visible(timeout=30_000)
        await expect(page.locator(".replica.leader")).to_have_count(6)
        found = await replicas(http, topic_name)
        assert [sorted(each) for each in found] == [[1, 2, 3]] * 6
        assert sorted(each[0] for each in found) == [1, 1, 2, 2, 3, 3]
        await page.get_by_role("button", name="Show the moves").click()
        await expect(page.get_by_text("This changes nothing.")).to_be_visible()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path / "cluster", controllers=1, port=0) as running:
        yield running


async def test_a_broker_that_is_down_is_offered_as_such_and_its_moves_can_be_cancelled(cluster: LocalCluster):
    url = cluster.public_url("broker-1")
    async with http_to(url) as http, page_of(url, bypass_csp=True) as page:
        made = await http("POST", "/v1/topics", json={"topic": "flights", "assignments": [[1, 2]]})
        assert made.status == 201, made.body
        cluster.kill("broker-3")
        await opened(page, url, "topics", "flights")
        label = page.locator("label.check", has_text="Broker 3")
        await expect(label).to_contain_text("out of use: fenced", timeout=60_000)
        await choose(page, 1, 3)
        await page.get_by_role("button", name="Show the moves").click()
        await expect(page.get_by_text("Broker 3 is fenced: moves to it wait")).to_be_visible()
        await page.get_by_role("button", name="Start this move").click()
        moving = page.get_by_role("region", name="Moves in progress").get_by_role("row").nth(1)
        await expect(moving).to_contain_text("new")
        for look in LOOKS.values():
            await page.emulate_media(color_scheme=look["color_scheme"])  # type: ignore[arg-type]
            await page.set_viewport_size(look.get("viewport", {"width": 1_280, "height": 720}))  # type: ignore[arg-type]
            await require_accessible(page, "a move in progress")
        await page.get_by_role("button", name="Cancel all moves of this topic").click()
        await expect(page.get_by_text("No replica of this topic moves any more.")).to_be_visible(timeout=15_000)
        assert await replicas(http, "flights") == [[1, 2]]
