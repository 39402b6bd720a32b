"""The console's pages in Chromium, each by what a person does there. `make test-console` runs them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from broker_support import Http, http_to
from console_support import LOOKS, opened, page_of, require_accessible
from playwright.async_api import Route, expect

from raftlog import Admin, Consumer, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import RaftlogError

pytestmark = [pytest.mark.cluster, pytest.mark.console]
HEADINGS = {
    "": "Cluster",
    "topics": re.compile("Topic|Records"),
    "groups": "Group",
    "brokers": "Broker",
    "transactions": "Transactions",
    "security": "Security",
    "settings": "Settings of broker",
}
NAMES = ("topics", "groups", "brokers", "brokers/1", "transactions", "security", "settings")


def content(path: Path) -> bytes:
    return path.read_bytes()


async def filled(http: Http, topic: str, count: int = 10) -> None:
    await http.create(topic, partitions=2, replication_factor=3)
    for partition in (0, 1):
        assert (await http.produce(topic, *map(str, range(count)), partition=partition)).status == 200


async def test_offsets_are_reset_with_a_plan_and_a_confirmation(shared_cluster: LocalCluster, topic_name: str):
    url = shared_cluster.public_url("broker-1")
    async with http_to(url) as http, Admin(url) as admin, page_of(url) as page:
        await filled(http, topic_name)
        await admin.alter_group_offsets(topic_name, {(topic_name, 0): 4, (topic_name, 1): 10})
        await opened(page, url, "groups", topic_name)
        partitions = page.get_by_role("region", name="Partitions")
        await expect(partitions.get_by_role("row").nth(1).get_by_role("cell").nth(4)).to_have_text("6")
        await page.get_by_role("combobox", name="To", exact=True).select_option("an offset")
        await page.get_by_label("Offset", exact=True).fill("7")
        await page.get_by_role("button", name="Show the plan").click()
        plan = page.get_by_role("region", name="Plan").get_by_role("row")
        await expect(plan.nth(1)).to_contain_text("473")
        await expect(page.get_by_text("2 of 2 offsets change. Nothing is changed yet.")).to_be_visible()
        assert (await admin.group_offsets(topic_name))[(topic_name, 0)] == 4
        change = page.get_by_role("button", name="Change these offsets")
        await expect(change).to_be_disabled()
        await page.get_by_label("Type the group's id").first.fill(topic_name)
        await change.click()
        await expect(page.get_by_text("2 offsets are changed.")).to_be_visible()
        assert await admin.group_offsets(topic_name) == {(topic_name, 0): 7, (topic_name, 1): 7}
        await page.get_by_label("Type the group's id").fill(topic_name)
        await page.get_by_role("button", name="Delete the group").click()
        await expect(page.get_by_role("heading", name="Groups")).to_be_visible()
        assert topic_name not in [group.group_id for group in await admin.list_groups()]


async def test_a_group_with_members_cannot_be_reset(shared_cluster: LocalCluster, topic_name: str):
    url = shared_cluster.public_url("broker-3")
    async with http_to(url) as http, page_of(url) as page:
        await filled(http, topic_name)
        async with Consumer(url, topic_name, group_id=topic_name, client_id="reader @1") as consumer:
            await consumer.fetch()
            await opened(page, url, "groups", topic_name)
            await expect(page.get_by_role("region", name="Members")).to_contain_text("reader @1", timeout=20_000)
            await expect(page.get_by_role("button", name="Show the plan")).to_be_disabled()
            await expect(page.get_by_text("Stop its members first: they would go on")).to_be_visible()


async def test_an_open_transaction_is_aborted(shared_cluster: LocalCluster, topic_name: str):
    url = shared_cluster.public_url("broker-2")
    async with http_to(url) as http, page_of(url) as page:
        await filled(http, topic_name, 1)
        producer = Producer(url, transactional_id=topic_name)
        async with producer:
            transaction = producer.transaction()
            await transaction.__aenter__()
            await producer.send(topic_name, b"never seen", partition=0)
            await opened(page, url, "transactions")
            await page.get_by_label("Filter").fill(topic_name)
            await page.get_by_role("button", name="Details").click()
            detail = page.get_by_role("region", name="The selected transaction")
            await expect(detail).to_contain_text(f"{topic_name}-0")
            await page.get_by_label("Type the transactional id").fill(topic_name)
            await page.get_by_role("button", name="Abort the transaction").click()
            await expect(page.get_by_text("No open transactions.")).to_be_visible(timeout=20_000)
            with pytest.raises(RaftlogError):
                await transaction.__aexit__(None, None, None)
        found = (await http("GET", f"/v1/topics/{topic_name}/records?format=json")).json
        assert "never seen" not in [record["value"] for record in found]


async def test_a_record_is_produced_found_copied_and_downloaded(shared_cluster: LocalCluster, topic_name: str):
    url = shared_cluster.public_url("broker-1")
    value = json.dumps({"order": {"city": "Paris <b>"}, "text": "a\u202eb"})
    async with http_to(url) as http, page_of(url, permissions=["clipboard-read", "clipboard-write"]) as page:
        await filled(http, topic_name, 3)
        await opened(page, url, "topics", topic_name, "records")
        await page.get_by_text("Produce a record").click()
        await page.get_by_label("Key", exact=True).fill("order-7")
        await page.get_by_label("Value", exact=True).fill(value)
        await page.get_by_label("Headers, one a line").fill("no colon")
        await page.get_by_role("button", name="Produce", exact=True).click()
        await expect(page.get_by_text('expected "name: value"')).to_be_visible()
        await page.get_by_label("Headers, one a line").fill("trace: <i>1</i>\nempty:")
        await page.get_by_role("button", name="Produce", exact=True).click()
        await expect(page.get_by_text("Stored in partition")).to_be_visible()
        for place, text in (("a member of JSON", "order.city=paris"), ("headers", "<i>1</i>"), ("key", "ORDER-7")):
            await page.get_by_role("combobox", name="In", exact=True).select_option(place)
            await page.get_by_label("Only with the text").fill(text)
            await page.get_by_role("button", name="Read", exact=True).click()
            await expect(page.locator("#state")).to_contain_text("7 records read, 1 shown")
        await page.get_by_role("listbox", name="Records").focus()
        await page.keyboard.press("ArrowDown")
        await expect(page.locator("dl.headers")).to_contain_text("<i>1</i>")
        await page.get_by_role("button", name="Copy the value").click()
        await expect(page.get_by_text("The value is copied.")).to_be_visible()
        assert await page.evaluate("navigator.clipboard.readText()") == value
        async with page.expect_download() as begun:
            await page.get_by_role("button", name="Download the value").click()
        assert content(await (await begun.value).path()) == value.encode()
        async with page.expect_download() as begun:
            await page.get_by_role("button", name="Download these rows").click()
        (row,) = content(await (await begun.value).path()).splitlines()
        assert json.loads(row)["value"] == value


async def test_a_value_of_1_mb_downloads_whole_and_bytes_are_shown_by_number(
    shared_cluster: LocalCluster, topic_name: str
):
    url, large = shared_cluster.public_url("broker-2"), bytes(range(256)) * 4_096
    async with http_to(url) as http, Producer(url) as producer, page_of(url) as page:
        await http.create(topic_name, partitions=1, replication_factor=3)
        await producer.send(topic_name, large, key=b"\xff\x00", headers=[("h", b"\xfe")])
        await opened(page, url, "topics", topic_name, "records")
        await page.get_by_role("button", name="Read", exact=True).click()
        await page.locator(".line", has_text="ff 00").click()
        await expect(page.get_by_text("hex, the first part")).to_be_visible()
        async with page.expect_download() as begun:
            await page.get_by_role("button", name="Download the value").click()
        download = await begun.value
        assert download.suggested_filename == f"{topic_name}-0-0"
        assert content(await download.path()) == large


async def test_users_and_rules_are_made_and_deleted(shared_cluster: LocalCluster, topic_name: str):
    url, user = shared_cluster.public_url("broker-1"), topic_name
    async with Admin(url) as admin, page_of(url) as page:
        await opened(page, url, "security")
        await page.get_by_label("User", exact=True).fill(user)
        await page.get_by_label("New password").fill("secret-password-1")
        await page.get_by_role("button", name="Create, or change").click()
        await expect(page.get_by_text(f"{user} has this password now.")).to_be_visible()
        assert "secret-password-1" not in await page.content()
        await expect(page.get_by_label("New password")).to_have_value("")
        await page.get_by_label("Principal", exact=True).fill(f"User:{user}")
        await page.get_by_label("Name", exact=True).fill(topic_name)
        await page.get_by_role("button", name="Add the rule").click()
        rules = page.get_by_role("region", name="Access rules")
        await expect(rules.get_by_role("row").filter(has_text=f"User:{user}")).to_contain_text(f"topic {topic_name}")
        await rules.get_by_role("row").filter(has_text=f"User:{user}").get_by_role("button").click()
        await expect(page.get_by_text(f"User:{user} may read topic {topic_name}")).to_be_visible()
        await page.get_by_role("button", name="Delete the rule").click()
        await expect(rules.get_by_role("row").filter(has_text=f"User:{user}")).to_have_count(0)
        await page.get_by_role("region", name="Users").get_by_role("row", name=user).get_by_role("button").click()
        await page.get_by_label(f"Type {user}").fill(user)
        await page.get_by_role("button", name="Delete the user").click()
        await expect(page.get_by_role("region", name="Users").get_by_text(user)).to_have_count(0)
        assert user not in [one.user for one in await admin.users()]


async def test_settings_show_their_source_and_change(shared_cluster: LocalCluster, topic_name: str):
    url = shared_cluster.public_url("broker-3")
    async with http_to(url) as http, page_of(url, allowed=("400",)) as page:
        await http.create(topic_name, partitions=1, replication_factor=3)
        await opened(page, url, "topics", topic_name)
        row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="retention_ms", exact=True))
        await expect(row).to_contain_text("default")
        await row.get_by_role("button", name="Change retention_ms").click()
        await row.get_by_label("The value of retention_ms").fill("7200000")
        await row.get_by_role("button", name="Save").click()
        await expect(row).to_contain_text("2 h")
        await expect(row).to_contain_text("this topic")
        assert (await http("GET", f"/v1/topics/{topic_name}")).json["configs"]["retention_ms"] == 7_200_000
        await row.get_by_role("button", name="Remove the value of retention_ms").click()
        await expect(row.get_by_role("button", name="Remove")).to_have_count(0)
        await opened(page, url, "settings", "1")
        await page.get_by_label("Filter").fill("max_connection_rate")
        await page.get_by_role("button", name="Change max_connection_rate", exact=True).click()
        await page.get_by_label("The value of max_connection_rate", exact=True).fill("many")
        await page.get_by_role("button", name="Save").click()
        await expect(page.locator("main [role=alert]:not(:empty)")).to_contain_text("max_connection_rate")
        await page.get_by_label("The value of max_connection_rate", exact=True).fill("5000")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("this broker").last).to_be_visible()
        await page.get_by_role("button", name="Remove the value of max_connection_rate", exact=True).click()
        await expect(page.get_by_role("button", name="Remove the value of max_connection_rate")).to_have_count(0)


async def test_a_listing_of_10000_topics_is_read_in_pages(shared_cluster: LocalCluster):
    """The answers are made here: a cluster of so many topics would take minutes."""
    url, asked = shared_cluster.public_url("broker-1"), list[str]()
    names = [f"topic-{number:05d}" for number in range(10_000)]

    async def answer(route: Route) -> None:
        asked.append(route.request.url)
        query = dict(pair.split("=") for pair in route.request.url.split("?")[1].split("&"))
        fitting = [name for name in names if query.get("contains", "") in name]
        left = [name for name in fitting if name > query.get("after", "")]
        shown = left[: int(query["limit"])]
        topics = [{"topic": name, "partitions": [], "configs": {}, "internal": False} for name in shown]
        more = shown[-1] if len(left) > len(shown) else ""
        await route.fulfill(json={"topics": topics, "matching": len(fitting), "next": more})

    async with page_of(url) as page:
        await page.route("**/v1/topics?*", answer)
        await opened(page, url, "topics")
        rows = page.get_by_role("region", name="Topics").get_by_role("row")
        await expect(page.get_by_text("1 to 50 of 10,000 topics")).to_be_visible()
        await expect(rows).to_have_count(51)
        await page.get_by_role("button", name="More").click()
        await expect(page.get_by_text("51 to 100 of 10,000 topics")).to_be_visible()
        await expect(rows.nth(1)).to_contain_text("topic-00050")
        await page.get_by_role("button", name="Earlier").click()
        await expect(rows.nth(1)).to_contain_text("topic-00000")
        await page.get_by_label("Filter").fill("09999")
        await expect(page.get_by_text("1 to 1 of 1 topics")).to_be_visible()
        assert all("limit=50" in one for one in asked)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("look", LOOKS)
async def test_axe_finds_nothing_serious(shared_cluster: LocalCluster, topic_name: str, look: str):
    url = shared_cluster.public_url("broker-1")
    options = LOOKS[look] | {"bypass_csp": True}
    async with http_to(url) as http, Admin(url) as admin, page_of(url, **options) as page:
        await filled(http, topic_name)
        await admin.alter_group_offsets(topic_name, {(topic_name, 0): 4, (topic_name, 1): 10})
        places = ["", *NAMES, f"topics/{topic_name}", f"topics/{topic_name}/records", f"groups/{topic_name}"]
        for place in places:
            await page.goto(f"{url}/console/#/{place}")
            await expect(page.get_by_role("heading", level=1, name=HEADINGS[place.partition("/")[0]])).to_be_visible()
            await expect(page.locator("main table, main [role=listbox]").first).to_be_visible(timeout=15_000)
            if place.endswith("/records"):
                await page.get_by_role("button", name="Read", exact=True).click()
                await page.locator(".line").first.click()
                await page.get_by_text("Produce a record").click()
            if place.startswith("groups/"):
                await page.get_by_role("combobox", name="To", exact=True).select_option("the end")
                await page.get_by_role("button", name="Show the plan").click()
                await expect(page.get_by_role("region", name="Plan")).to_be_visible()
            if place == f"topics/{topic_name}":
                replicas = (await http("GET", f"/v1/topics/{topic_name}")).json["partitions"][0]["replicas"]
                await page.get_by_label("Partitions to move").fill("0")
                await page.get_by_label("Preferred leader").select_option(label=f"broker {replicas[1]}")
                await page.get_by_role("button", name="Show the moves").click()
                await expect(page.get_by_role("region", name="Plan of the moves")).to_be_visible()
            await require_accessible(page, place)


async def test_the_keyboard_alone_opens_a_page_and_skips_the_links(shared_cluster: LocalCluster):
    url = shared_cluster.public_url("broker-1")
    async with page_of(url) as page:
        await expect(page.locator("#level")).to_be_visible(timeout=15_000)
        for _ in range(4):
            await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Groups")).to_be_visible()
        await page.get_by_role("link", name="Skip to the page").focus()
        await page.keyboard.press("Enter")
        assert await page.evaluate("document.activeElement.tagName") == "H1"


async def test_a_failover_is_told_as_it_happens(tmp_path: Path):
    with LocalCluster(tmp_path / "cluster", port=0) as cluster:
        url = cluster.public_url("broker-1")
        async with http_to(url) as http:
            await http.create("flights", partitions=6, replication_factor=3)
        async with page_of(url, allowed=("503", "421", "504")) as page:
            await opened(page, url, "brokers")
            await expect(page.get_by_role("region", name="Brokers").get_by_text("ok", exact=True)).to_have_count(3)
            cluster.kill("broker-3")
            told = page.locator(".happenings")
            await expect(told).to_contain_text("no answer from broker 3", timeout=20_000)
            await expect(told).to_contain_text("leads 3 partitions, before 2", timeout=20_000)
            await opened(page, url, "brokers", "3")
            await expect(page.locator("main [role=alert]:not(:empty)")).to_contain_text("cannot connect")
