"""The bare processes of a benchmark move records, write them to their files, and end."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.bare import FORMS, Bare, bare


def written(processes: Bare) -> list[int]:
    """Return the bytes that each process has written to files."""
    lines = [Path(f"/proc/{pid}/io").read_text() for pid in processes.pids.values()]
    return [int(text.split("wchar: ")[1].split()[0]) for text in lines]


@pytest.mark.parametrize(("form", "synced"), list(zip(FORMS, (False, True, False, True), strict=True)))
def test_three_replicas_write_each_record(tmp_path: Path, form: str, synced: bool):
    with bare(form, tmp_path, synced=synced) as processes:
        before = written(processes)
        latencies = processes.send(20)
        more = [now - then for now, then in zip(written(processes), before, strict=True)]
    assert len(latencies) == 20
    assert min(latencies) > 0
    assert all(size > 20 * 600 for size in more[:3])
    assert not any(Path(f"/proc/{pid}").exists() for pid in processes.pids.values())
