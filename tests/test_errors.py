"""Errors cross the wire and stay what they are."""

from __future__ import annotations

import ast
from pathlib import Path

import orjson
import pytest

from raftlog import errors
from raftlog.errors import MAX_MESSAGE, ErrorCode, InvalidRequestError, RaftlogError, from_wire


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_code_has_a_status_and_survives_the_wire(code: ErrorCode):
    family = type(from_wire({"code": code.value, "message": ""}))
    error = family("what was wrong", code=code, details={"leader": 2})

    back = from_wire({"error": error.to_wire()})

    assert type(back) is family
    assert (back.code, back.message, back.details) == (code, "what was wrong", {"leader": 2})
    assert back.retriable == error.retriable
    assert error.http_status >= 400
    assert error.http_status != 500 or code in {ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.KAFKA_STORAGE_ERROR}


def test_the_family_says_the_duty():
    assert isinstance(from_wire({"code": "NOT_LEADER_OR_FOLLOWER", "message": ""}), errors.StaleRouteError)
    assert isinstance(from_wire({"code": "REQUEST_TIMED_OUT", "message": ""}), errors.UnknownOutcomeError)
    for code in ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER"):
        body = {"code": code, "message": "", "details": {"appended": True}}
        assert type(from_wire(body)) is errors.UnknownOutcomeError
    assert isinstance(from_wire({"code": "INSUFFICIENT_STORAGE", "message": ""}), errors.DiskFullError)
    assert isinstance(from_wire({"code": "FENCED_LEADER_EPOCH", "message": ""}), errors.FencedError)


@pytest.mark.parametrize("body", [None, [], "text", {"error": "text"}, {"error": {"code": "FROM_THE_FUTURE"}}])
def test_an_answer_that_is_no_error_body_becomes_a_plain_error(body: object):
    assert type(from_wire(body)) is RaftlogError


def test_a_long_message_is_cut_in_its_middle():
    error = errors.NotFoundError("there is no topic " + "x" * 100_000 + ": create it")
    assert len(error.message) == errors.MAX_MESSAGE
    assert error.message.startswith("there is no topic xxx")
    assert error.message.endswith("xxx: create it")
    assert str(error) == error.message


def test_what_has_no_utf_8_is_escaped_in_a_message():
    """Bytes of a request that are no UTF-8 become lone surrogates, which no response can carry."""
    error = InvalidRequestError("Host: received \udc80\ud800 and é", details={"status": 1})
    assert error.message == "Host: received \\udc80\\ud800 and é"
    assert str(error) == error.message
    assert orjson.loads(orjson.dumps(error.to_wire()))["message"] == error.message
    assert len(InvalidRequestError("\udc80" * 100_000).message) <= MAX_MESSAGE


def raised_with_codes() -> list[tuple[type[RaftlogError], ErrorCode]]:
    """Return the class and the code of each retriable error whose code is written out."""
    found = set()
    for path in Path(errors.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            family = getattr(errors, node.func.id, None)
            if isinstance(family, type) and issubclass(family, RaftlogError) and family.retriable:
                codes = [part for word in node.keywords if word.arg == "code" for part in ast.walk(word.value)]
                names = [part.attr for part in codes if isinstance(part, ast.Attribute)]
                found |= {(family, ErrorCode[name]) for name in names if name in ErrorCode.__members__}
    return sorted(found, key=lambda pair: (pair[0].__name__, pair[1].name))


@pytest.mark.parametrize(("family", "code"), raised_with_codes())
def test_what_is_retriable_where_it_is_raised_is_retriable_for_its_receiver(
    family: type[RaftlogError], code: ErrorCode
):
    raised = family("what was wrong", code=code)
    assert from_wire(raised.to_wire()).retriable
