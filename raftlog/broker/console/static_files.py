"""The files of the console, as one broker serves them: plain and gzip, with ETags. Made once, from package data."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files

_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
_HASHED = re.compile(r"[a-z]+-[A-Z0-9]{8}\.(js|css)")
"""Names that change with the content."""
INDEX = "index.html"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file."""

    plain: bytes
    zipped: bytes
    etag: str
    content_type: str
    cache_control: str

    def headers(self, *, zipped: bool) -> dict[str, str]:
        """Return the header fields of an answer; the two codings have different ETags (RFC 9110, 8.8.3)."""
        found = {
            **SECURITY_HEADERS,
            "Content-Type": self.content_type,
            "Cache-Control": self.cache_control,
            "ETag": f'"{self.etag}-gzip"' if zipped else f'"{self.etag}"',
            "Vary": "Accept-Encoding",
        }
        return found | ({"Content-Encoding": "gzip"} if zipped else {})


def static_file(name: str, content: bytes) -> StaticFile:
    """Return a file with its headers.

    Raises:
        KeyError: its type is not one of the console's.
    """
    is_fixed = _HASHED.fullmatch(name) is not None
    return StaticFile(
        plain=content,
        zipped=gzip.compress(content, mtime=0),
        etag=hashlib.sha256(content).hexdigest()[:32],
        content_type=_TYPES[name.rpartition(".")[2]],
        cache_control="public, max-age=31536000, immutable" if is_fixed else "no-cache",
    )


def load(contents: Iterable[tuple[str, bytes]] | None = None) -> dict[str, StaticFile]:
    """Return every file by its name: a request selects one of them, and never a path.

    Args:
        contents: names and contents; None: those of the package.
    """
    return {name: static_file(name, content) for name, content in contents or _packaged()}


def _packaged() -> list[tuple[str, bytes]]:
    folder = files("raftlog.broker.console") / "static"
    served = [file for file in folder.iterdir() if file.name.rpartition(".")[2] in _TYPES]
    return [(file.name, file.read_bytes()) for file in served]
