"""Logs that tests leave open are closed after each: collecting an object does not close its descriptor."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from raftlog.partition.storage.file_pool import DEFAULT_LIMIT, FilePool


@pytest.fixture(autouse=True)
def no_file_stays_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    pools: list[FilePool] = []
    begin = FilePool.__init__

    def remember(self: FilePool, limit: int = DEFAULT_LIMIT) -> None:
        begin(self, limit)
        pools.append(self)

    monkeypatch.setattr(FilePool, "__init__", remember)
    yield
    for pool in pools:
        for file in list(pool._open.values()):
            pool.close(file)
