"""The console's files: what a path may name, headers, and whether the bundle is that of the sources."""

from __future__ import annotations

import gzip
import hashlib
from importlib.resources import files
from pathlib import Path

import pytest

from raftlog.broker.console.static_files import load, static_file

SOURCES = Path(__file__).parents[2] / "console"


def test_every_file_has_a_strict_policy_and_a_type():
    found = load()
    assert {name.rpartition(".")[2] for name in found} == {"html", "js", "css"}
    for name, file in found.items():
        headers = file.headers(zipped=False)
        assert "default-src 'none'; script-src 'self'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == (
            "no-cache" if name == "index.html" else "public, max-age=31536000, immutable"
        )


def test_the_two_codings_have_the_same_content_and_different_etags():
    file = static_file("app-ABCDEF12.js", b"const a = 1;" * 100)
    assert gzip.decompress(file.zipped) == file.plain
    assert file.headers(zipped=True)["ETag"] != file.headers(zipped=False)["ETag"]
    assert file.headers(zipped=True)["Content-Encoding"] == "gzip"


def test_a_name_without_a_hash_is_not_cached():
    assert static_file("app.js", b"").cache_control == "no-cache"


def test_a_type_that_the_console_does_not_use_is_refused():
    with pytest.raises(KeyError):
        static_file("app.exe", b"")


def test_the_bundle_is_below_its_budget():
    assert sum(len(file.zipped) for file in load().values()) < 150_000


def test_the_bundle_requests_nothing_from_elsewhere():
    page = load()["index.html"].plain.decode()
    assert "http://" not in page
    assert "https://" not in page


def test_the_bundle_was_built_from_these_sources():
    digest = hashlib.sha256()
    for file in sorted((SOURCES / "src").iterdir(), key=lambda each: each.name):
        digest.update(f"{file.name}\n".encode() + file.read_bytes())
    digest.update((SOURCES / "package.json").read_bytes())
    built = (files("raftlog.broker.console") / "static" / "sources.sha256").read_text().strip()
    assert built == digest.hexdigest(), "run: cd console && npm install && npm run build"
