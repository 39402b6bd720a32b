"""The console in Chromium: an overview, a topic's life, records with hostile values, a live tail, a killed broker."""

from __future__ import annotations

import base64
from pathlib import Path
from urllib.parse import quote

import pytest
from broker_support import http_to
from console_support import page_of
from playwright.async_api import expect

from raftlog import Admin, Producer
from raftlog.cli.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster
HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


async def test_a_topic_from_its_creation_to_its_deletion(shared_cluster: LocalCluster, topic_name: str):
    url = shared_cluster.public_url("broker-1")
    async with page_of(url) as page, http_to(url) as http:
        brokers = page.get_by_role("region", name="Brokers")
        await expect(brokers.get_by_text("ok", exact=True)).to_have_count(3, timeout=15_000)
        await page.get_by_role("link", name="Topics").click()
        await page.get_by_label("New topic").fill(topic_name)
        await page.get_by_role("button", name="Create").click()
        await expect(page.get_by_role("heading", name=f"Topic {topic_name}")).to_be_visible()
        await expect(page.locator(".replica.leader")).to_have_count(3)
        records = [{"value": HOSTILE, "partition": 0}, {"value": '{"a": [1, 2]}', "partition": 0}]
        records += [{"value": "a\x1b[31mred\u202eback", "partition": 0}]
        raw = base64.b64encode(b"\xff\xfe\x00binary").decode()
        records += [{"value": raw, "value_encoding": "base64", "partition": 0}]
        assert (await http("POST", f"/v1/topics/{topic_name}/records", json={"records": records})).status == 200
        await page.get_by_role("link", name="Browse its records").click()
        await page.get_by_role("button", name="Read").click()
        await expect(page.locator("#state")).to_contain_text("4 records read, 4 shown")
        await page.locator(".line", has_text="<script>").click()
        await expect(page.locator("#value")).to_have_text(HOSTILE)
        await page.locator(".line", has_text="red").click()
        await expect(page.locator("#value")).to_have_text(r"a\u001b[31mred\u202eback")
        await page.locator(".line", has_text="ff fe 00").click()
        await expect(page.get_by_text("hex")).to_be_visible()
        await page.get_by_label("Only with the text").fill("[1, 2]")
        await page.get_by_role("button", name="Read").click()
        await expect(page.locator("#state")).to_contain_text("4 records read, 1 shown")
        assert await page.title() == "raftlog: Records"
        await page.get_by_role("link", name=topic_name).click()
        delete = page.get_by_role("button", name="Delete the topic")
        await expect(delete).to_be_disabled()
        await page.get_by_label("Type the topic's name").fill(topic_name)
        await delete.click()
        await expect(page.get_by_role("heading", name="Topics")).to_be_visible()
        assert (await http("GET", f"/v1/topics/{topic_name}")).status == 404


async def test_a_live_tail_of_many_records_keeps_the_page_responsive(shared_cluster: LocalCluster, topic_name: str):
    url = shared_cluster.public_url("broker-2")
    async with http_to(url) as http, page_of(url) as page:
        await http.create(topic_name, partitions=1, replication_factor=3)
        await page.goto(f"{url}/console/#/topics/{topic_name}/records")
        await page.get_by_role("button", name="Live tail").click()
        await expect(page.locator("#state")).to_contain_text("tailing")
        await page.evaluate(
            "() => { window.slowest = 0; let last = performance.now();"
            "setInterval(() => { const now = performance.now();"
            "window.slowest = Math.max(window.slowest, now - last); last = now; }, 20); }"
        )
        for _ in range(3):
            assert (await http.produce(topic_name, *(f"record {number}" for number in range(10_000)))).status == 200
        await expect(page.locator("#state")).to_contain_text("30,000 records read", timeout=30_000)
        assert await page.locator(".line").count() <= 60
        await expect(page.locator("#state")).to_contain_text("20,000 shown")
        assert await page.evaluate("window.slowest") < 2_000


async def test_every_page_opens_and_shows_hostile_names_as_text(shared_cluster: LocalCluster, topic_name: str):
    url, group = shared_cluster.public_url("broker-2"), f"<b>{topic_name}</b>"
    pages = {
        "topics": "Topics",
        f"topics/{topic_name}": f"Topic {topic_name}",
        "groups": "Groups",
        f"groups/{quote(group, safe='')}": f"Group {group}",
        "brokers": "Brokers and controllers",
        "brokers/1": "Broker 1",
        "transactions": "Transactions",
        "security": "Security",
        "settings": "Settings of broker 2",
    }
    async with http_to(url) as http, page_of(url) as page:
        await http.create(topic_name, partitions=1, replication_factor=3)
        await http.produce(topic_name, "a", "b", "c")
        async with Admin(url) as admin:
            await admin.alter_group_offsets(group, {(topic_name, 0): 1})
        for path, heading in pages.items():
            await page.goto(f"{url}/console/#/{path}")
            await expect(page.get_by_role("heading", name=heading, exact=True)).to_be_visible()
            if path == "groups":
                await page.get_by_label("Filter").fill(topic_name)
                row = page.get_by_role("row").filter(has=page.get_by_role("link", name=group, exact=True))
                await expect(row.get_by_role("cell").nth(3)).to_have_text("2")
            if path == "brokers/1":
                await expect(page.get_by_text("No damage is known")).to_be_visible()
            await expect(page.locator("main [role=alert]:not(:empty)")).to_have_count(0)


async def test_a_phone_shows_the_page_without_scrolling_sideways(shared_cluster: LocalCluster):
    url = shared_cluster.public_url("broker-3")
    size = {"width": 390, "height": 800}
    async with page_of(url, viewport=size, color_scheme="dark") as page:
        await expect(page.locator("#level")).to_be_visible(timeout=15_000)
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390


async def test_a_killed_broker_is_seen_within_seconds(tmp_path: Path):
    with LocalCluster(tmp_path / "cluster", controllers=1, port=0) as cluster:
        async with http_to(cluster.public_url("broker-1")) as http:
            await http.create("flights", partitions=3, replication_factor=3)
        async with page_of(cluster.public_url("broker-1")) as page:
            await expect(page.locator("#level")).to_have_text("healthy", timeout=15_000)
            cluster.kill("broker-3")
            await expect(page.get_by_text("no answer from broker 3")).to_be_visible(timeout=10_000)
            await expect(page.get_by_text("partitions under-replicated")).to_be_visible(timeout=15_000)
            await page.goto(f"{cluster.public_url('broker-1')}/console/#/topics/flights")
            await expect(page.locator(".replica.out")).to_have_count(3)


async def test_a_value_of_8_mb_is_shown_in_part(shared_cluster: LocalCluster, topic_name: str):
    url = shared_cluster.public_url("broker-1")
    async with http_to(url) as http, page_of(url) as page:
        await http.create(topic_name, partitions=1, replication_factor=3)
        async with Producer(url) as producer:
            await producer.send(topic_name, ("\N{SNOWMAN}" * 2_700_000).encode(), partition=0)
        await page.goto(f"{url}/console/#/topics/{topic_name}/records")
        await page.get_by_role("button", name="Read").click()
        await expect(page.locator("#state")).to_contain_text("1 records read, 1 shown", timeout=15_000)
        await page.locator(".line").click()
        await expect(page.get_by_text("text, the first part")).to_be_visible()
