"""Pages of listings: every name once, whatever the page's size, and the sender's rights."""

from __future__ import annotations

import pytest

from raftlog.broker.paging import Wanted, merged, names_of

NAMES = ["b", "a", "Flights", "flights-2", "\N{SNOWMAN}", "c\n<script>", ""]


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_the_pages_together_have_every_name_once(limit: int):
    found, after = list[str](), ""
    while True:
        page = await names_of(NAMES, Wanted(after=after, limit=limit))
        found += page.shown
        assert len(page.shown) <= limit
        assert page.matching == len(NAMES)
        if not page.next:
            break
        after = page.next
    assert found == sorted(name for name in NAMES if name)


@pytest.mark.parametrize("limit", [1, 1_023, 1_024, 1_025, 5_000])
async def test_pages_of_many_names_are_in_order(limit: int):
    names = [f"{number * 7_919 % 5_000:04d}" for number in range(5_000)]
    page = await names_of(names, Wanted(after="0007", limit=limit))
    assert list(page.shown) == sorted(names)[8 : 8 + limit]
    assert (page.matching, page.next) == (5_000, f"{7 + limit:04d}" if limit < 4_992 else "")


async def test_a_text_is_found_whatever_its_case():
    page = await names_of(NAMES, Wanted(contains="flight", limit=1))
    assert (page.shown, page.matching, page.next) == (["Flights"], 2, "Flights")


async def test_names_that_a_sender_may_not_see_are_not_counted():
    page = await names_of(NAMES, Wanted(limit=1), lambda name: name == "b")
    assert (page.shown, page.matching, page.next) == (["b"], 1, "")


async def test_pages_of_brokers_become_one_page():
    wanted = Wanted(limit=2)
    entries, matching, after = merged([(["a", "d"], 5, True), (["b"], 1, False)], wanted, str)
    assert (entries, matching, after) == (("a", "b"), 6, "b")
    assert merged([((), 0, False), (["z"], 1, False)], wanted, str) == (("z",), 1, "")
    assert merged([(["a", "b"], 2, False)], wanted, str) == (("a", "b"), 2, "")
