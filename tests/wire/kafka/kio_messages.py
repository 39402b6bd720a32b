"""The same messages as objects of kio, an independent codec that is generated from the same definitions."""

from __future__ import annotations

import datetime as dt
import io
from dataclasses import fields
from functools import cache
from importlib import import_module
from typing import Any
from uuid import UUID

from kafka_messages import subject
from kafka_schema import Field, snake
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_KINDS = {"Request": "request", "Response": "response"}


@cache
def kio_class(name: str, version: int) -> Any:
    """Return kio's class of a message."""
    kind = next((kind for end, kind in _KINDS.items() if name.endswith(end)), "data")
    folder = snake(name.removesuffix("Request").removesuffix("Response"))
    return getattr(import_module(f"kio.schema.{folder}.v{version}.{kind}"), name)


def to_kio(name: str, version: int, message: Any) -> Any:
    """Return a message as an object of kio."""
    return _struct(name, version, name, message, kio_class(name, version))


def encoded_by_kio(name: str, version: int, message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(kio_class(name, version))(buffer, to_kio(name, version, message))
    return buffer.getvalue()


def decoded_by_kio(name: str, version: int, data: bytes) -> Any:
    found, size = entity_reader(kio_class(name, version))(data, 0)
    assert size == len(data)
    return found


def _struct(name: str, version: int, struct: str, value: Any, cls: Any) -> Any:
    ours, theirs = subject(name).fields(struct, version), fields(cls)
    module = import_module(cls.__module__)
    made = {}
    for field, other in zip(ours, theirs, strict=True):
        given = getattr(value, field.name)
        inner = getattr(module, field.type) if field.is_struct else None
        kind = other.metadata.get("kafka_type")
        if kind == "datetime_i64" and other.default is None and given == -1:
            made[other.name] = None  # kio has no time where the definition's default is -1.
            continue
        made[other.name] = _field(name, version, field, given, kind, inner)
    return cls(**made)


def _field(name: str, version: int, field: Field, value: Any, kind: Any, cls: Any) -> Any:
    if field.is_tagged_struct and value is None:
        value = subject(name).struct(field.type)()
    if value is None:
        return None
    if field.is_array:
        return tuple(_value(name, version, field, one, kind, cls) for one in value)
    return _value(name, version, field, value, kind, cls)


def _value(name: str, version: int, field: Field, value: Any, kind: Any, cls: Any) -> Any:
    if cls is not None:
        return _struct(name, version, field.type, value, cls)
    if kind == "error_code":
        return ErrorCode(value)
    if kind == "datetime_i64":
        return _EPOCH + dt.timedelta(milliseconds=value)
    if kind in ("timedelta_i32", "timedelta_i64"):
        return dt.timedelta(milliseconds=value)
    return (UUID(bytes=value) if any(value) else None) if kind == "uuid" else value
