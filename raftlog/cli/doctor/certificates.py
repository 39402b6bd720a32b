"""When a certificate ends, read from its DER bytes (RFC 5280). Pure: `ssl` shows the date only of trusted ones."""

from __future__ import annotations

import datetime as dt
import re

_SEQUENCE, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18
_BEFORE_VALIDITY = 3
"""Fields between the version and the validity: serial number, signature algorithm, issuer."""


def end_of(certificate: bytes) -> float:
    """Return when a certificate ends, in seconds since 1970.

    Raises:
        ValueError: the bytes are not a certificate.
    """
    outer, _ = _read(certificate, _SEQUENCE)
    rest, _ = _read(outer, _SEQUENCE)
    if rest[:1] == bytes([_VERSION]):
        _, rest = _read(rest)
    for _ in range(_BEFORE_VALIDITY):
        _, rest = _read(rest)
    validity, _ = _read(rest, _SEQUENCE)
    _, after = _read(validity)
    content, _ = _read(after)
    return _time(after[0], content)


def _read(data: bytes, tag: int | None = None) -> tuple[bytes, bytes]:
    """Return the content of the first element, and the bytes after it."""
    if len(data) < 2 or (tag is not None and data[0] != tag):
        raise ValueError("not a certificate in DER")
    length, start = data[1], 2
    if length & 0x80:
        start += length & 0x7F
        if not 2 < start <= 6:
            raise ValueError("not a certificate in DER")
        length = int.from_bytes(data[2:start], "big")
    if len(data) < start + length:
        raise ValueError("the certificate is cut off")
    return data[start : start + length], data[start + length :]


def _time(tag: int, content: bytes) -> float:
    text = content.decode("latin-1")
    digits = {_UTC_TIME: 12, _GENERALIZED_TIME: 14}.get(tag, 0)
    if not digits or re.fullmatch(rf"[0-9]{{{digits}}}Z", text) is None:
        raise ValueError(f"not a time in a certificate: {text!r:.40}")
    if tag == _UTC_TIME:
        text = ("19" if text[:2] >= "50" else "20") + text
    return dt.datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=dt.UTC).timestamp()
