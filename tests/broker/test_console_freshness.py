"""What the console shows while answers are late, lost, or of another release. `make test-console` runs them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from broker_support import http_to
from console_support import opened, page_of
from playwright.async_api import Page, Route, expect

from raftlog import Admin
from raftlog.cli.local_cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.console]
EVENTS = "**/console/api/events"
REFUSED = {"error": {"code": "BROKER_NOT_AVAILABLE", "message": "cannot connect to 2", "details": {}}}


@asynccontextmanager
async def held(page: Page, url: str) -> AsyncIterator[asyncio.Queue[Route]]:
    """Hold the requests of one address; they fail at the end."""
    routes, kept = asyncio.Queue[Route](), list[Route]()

    async def hold(route: Route) -> None:
        kept.append(route)
        await routes.put(route)

    await page.route(url, hold)
    try:
        yield routes
    finally:
        await page.unroute(url)


async def show(page: Page, *, hidden: bool) -> None:
    await page.evaluate(
        "hidden => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });"
        "document.dispatchEvent(new Event('visibilitychange')); }",
        hidden,
    )


def events(*offsets: int) -> str:
    fixed = {"broker_id": 1, "cluster_id": "c", "level": "healthy", "bytes_in_per_s": None}
    lists: dict[str, list[object]] = {name: [] for name in ("alerts", "controllers", "brokers", "groups", "topics")}
    found = [fixed | lists | {"at_ms": offset, "metadata_offset": offset} for offset in offsets]
    return "".join(f"event: cluster\ndata: {json.dumps(one)}\n\n" for one in found)


async def test_traffic_that_is_not_known_is_not_shown_as_none(shared_cluster: LocalCluster, topic_name: str):
    url = shared_cluster.public_url("broker-1")
    async with http_to(url) as http, page_of(url, allowed=("403",)) as page:
        await http.create(topic_name, partitions=1, replication_factor=3)
        await page.route(EVENTS, lambda route: route.fulfill(json=REFUSED, status=403))
        await opened(page, url, "topics")
        await page.get_by_label("Filter").fill(topic_name)
        row = page.get_by_role("row").filter(has_text=topic_name)
        await expect(row.get_by_role("cell").nth(3)).to_have_text("all")
        await expect(row.get_by_role("cell").nth(4)).to_have_text("\N{EN DASH}")
        await expect(row.get_by_role("cell").nth(5)).to_have_text("\N{EN DASH}")


async def test_a_stream_that_falls_silent_is_told_on_every_page_and_opened_again(shared_cluster: LocalCluster):
    url = shared_cluster.public_url("broker-1")
    async with page_of(url) as page, held(page, EVENTS) as routes:
        await page.clock.install()
        await opened(page, url, "groups")
        await routes.get()
        await page.clock.fast_forward(11_000)
        await expect(page.get_by_text("This broker has sent nothing for 10 s")).to_be_visible()
        await page.clock.fast_forward(2_500)
        again = await routes.get()
        await again.fulfill(body=events(5), content_type="text/event-stream")
        await expect(page.get_by_text("The connection to this broker has ended.")).to_be_visible()


async def test_without_a_stream_lists_renew_by_a_timer(shared_cluster: LocalCluster):
    url = shared_cluster.public_url("broker-1")
    async with page_of(url, allowed=("403",)) as page:
        await page.route(EVENTS, lambda route: route.fulfill(json=REFUSED, status=403))
        await page.clock.install()
        for place, asked in (("topics", "**/v1/topics?*"), ("groups", "**/v1/groups?*")):
            await opened(page, url, place)
            await expect(page.locator("[role=status]", has_text="Reading.")).to_have_count(0)
            async with page.expect_response(asked):
                await page.clock.fast_forward(10_500)


async def test_a_hidden_page_holds_no_connection(shared_cluster: LocalCluster):
    url = shared_cluster.public_url("broker-1")
    async with page_of(url) as page:
        await expect(page.locator("#level")).to_be_visible(timeout=15_000)
        is_stream = lambda request: request.url.endswith("/console/api/events")  # noqa: E731
        async with page.expect_event("requestfailed", is_stream):
            await show(page, hidden=True)
        async with page.expect_request(EVENTS):
            await show(page, hidden=False)


async def test_a_list_that_is_slower_than_its_renewal_is_shown(shared_cluster: LocalCluster):
    url = shared_cluster.public_url("broker-1")
    topics = {"topics": [], "matching": 0, "next": ""}
    async with page_of(url) as page, held(page, EVENTS) as streams, held(page, "**/v1/topics?*") as lists:
        await page.reload()
        stream = await streams.get()
        await page.goto(f"{url}/console/#/topics")
        first = await lists.get()
        await stream.fulfill(body=events(5, 6), content_type="text/event-stream")
        await streams.get()
        await first.fulfill(json=topics)
        await expect(page.get_by_text("No topics.")).to_be_visible()


async def test_a_topic_says_when_its_offsets_are_old_and_asks_once_at_a_time(
    shared_cluster: LocalCluster, topic_name: str
):
    url = shared_cluster.public_url("broker-1")
    async with http_to(url) as http, page_of(url, allowed=("503",)) as page:
        await http.create(topic_name, partitions=1, replication_factor=3)
        async with held(page, f"**/console/api/topics/{topic_name}") as routes:
            await page.clock.install()
            await page.goto(f"{url}/console/#/topics/{topic_name}")
            first = await routes.get()
            for _ in range(3):
                await page.clock.fast_forward(5_100)
            assert routes.empty()
            await first.fulfill(json=REFUSED, status=503)
            await expect(page.get_by_text("Offsets and sizes may be old: cannot connect to 2")).to_be_visible()


async def test_numbers_are_shown_and_saved_to_the_last_digit(shared_cluster: LocalCluster, topic_name: str):
    url, most = shared_cluster.public_url("broker-1"), 2**63 - 1
    async with http_to(url) as http, page_of(url) as page:
        await http.create(topic_name, partitions=1, replication_factor=3)
        await http.produce(topic_name, '{"id": 9007199254740993, "price": 1.10, "id": []}')
        await opened(page, url, "topics", topic_name, "records")
        await page.get_by_role("button", name="Read", exact=True).click()
        await page.locator(".line").click()
        await expect(page.locator("#value")).to_have_text(
            '{\n  "id": 9007199254740993,\n  "price": 1.10,\n  "id": []\n}', use_inner_text=True
        )
        path, configs = f"/v1/topics/{topic_name}", {"retention_ms": most}
        assert (await http("PATCH", path, json={"configs": configs})).status == 200
        await opened(page, url, "topics", topic_name)
        row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="retention_ms", exact=True))
        await expect(row).to_contain_text(str(most))
        await row.get_by_role("button", name="Change retention_ms").click()
        await expect(row.get_by_label("The value of retention_ms")).to_have_value(str(most))
        async with page.expect_response(lambda one: one.request.method == "PATCH"):
            await row.get_by_role("button", name="Save").click()
        await expect(row.get_by_role("button", name="Change retention_ms")).to_be_visible()
        assert (await http("GET", path)).json["configs"]["retention_ms"] == most


async def test_a_live_tail_shows_the_newest_record(shared_cluster: LocalCluster, topic_name: str):
    url = shared_cluster.public_url("broker-2")
    async with http_to(url) as http, page_of(url) as page:
        await http.create(topic_name, partitions=1, replication_factor=3)
        await opened(page, url, "topics", topic_name, "records")
        async with page.expect_response(f"**/v1/topics/{topic_name}/records?*"):
            await page.get_by_role("button", name="Live tail").click()
        await http.produce(topic_name, *(f"record {number}." for number in range(500)))
        await expect(page.locator(".line", has_text="record 499.")).to_be_visible()


async def test_a_group_has_at_least_the_lag_that_is_known_and_a_plan_is_of_its_form(
    shared_cluster: LocalCluster, topic_name: str
):
    url = shared_cluster.public_url("broker-1")

    async def lose_one(route: Route) -> None:
        answer = await (await route.fetch()).json()
        answer["offsets"][0] |= {"offset": -1, "high_watermark": -1, "log_start_offset": -1, **REFUSED}
        await route.fulfill(json=answer)

    async with http_to(url) as http, Admin(url) as admin, page_of(url) as page:
        await http.create(topic_name, partitions=2, replication_factor=3)
        for partition in (0, 1):
            await http.produce(topic_name, *map(str, range(10)), partition=partition)
        await admin.alter_group_offsets(topic_name, {(topic_name, 0): 4, (topic_name, 1): 4})
        await opened(page, url, "groups", topic_name)
        await expect(page.get_by_role("img", name="Lag (records): lag 12")).to_be_visible()
        await page.get_by_role("button", name="Show the plan").click()
        plan = page.get_by_role("region", name="Plan")
        await expect(plan).to_be_visible()
        await page.get_by_role("combobox", name="Topics").select_option(topic_name)
        await expect(plan).to_have_count(0)
        await page.route("**/v1/offsets", lose_one)
        await expect(page.get_by_text("at least: that of 1 partition is unknown")).to_be_visible(timeout=15_000)


async def test_after_an_upgrade_the_page_asks_to_be_reloaded(shared_cluster: LocalCluster, topic_name: str):
    url = shared_cluster.public_url("broker-1")
    async with http_to(url) as http, page_of(url, allowed=("404",)) as page:
        await http.create(topic_name, partitions=1, replication_factor=3)
        await page.route("**/console/decoder-*.js", lambda route: route.fulfill(json=REFUSED, status=404))
        await opened(page, url, "topics", topic_name, "records")
        await page.get_by_role("button", name="Read", exact=True).click()
        await expect(page.get_by_text("The broker was upgraded: reload the page.")).to_be_visible()
