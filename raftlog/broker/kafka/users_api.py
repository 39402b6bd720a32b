"""DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554).

The client makes the salted password itself, so the password is not sent. A user has a credential of each mechanism, or
of one; they change separately.
"""

from __future__ import annotations

from functools import partial
from typing import Final, TypeAlias

from raftlog.broker.kafka.admin_calls import AdminRequest, Result, each, repeated, require_few, special_number
from raftlog.broker.kafka.call import Handlers, KafkaCall, Served
from raftlog.broker.kafka.error_numbers import error_number
from raftlog.errors import ErrorCode, InvalidRequestError, NotFoundError, RaftlogError
from raftlog.metadata_quorum.controller.security import MAX_ITERATIONS, MIN_SALT_BYTES
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import MIN_SCRAM_ITERATIONS, UserCredential
from raftlog.runtime import in_slices
from raftlog.security.passwords import verifier_of
from raftlog.wire import paths
from raftlog.wire.admin import DeleteUserRequest, PutUserRequest
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from raftlog.wire.kafka.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from raftlog.wire.kafka.reader import MAX_ELEMENTS
from raftlog.wire.scram import KEY_BYTES, SHA_256, SHA_512

MECHANISMS: Final = {1: SHA_256, 2: SHA_512}
"""Kafka's numbers of mechanisms."""
_NUMBERS: Final = {name: number for number, name in MECHANISMS.items()}
_MOST_SALT_BYTES: Final = 127
_Change: TypeAlias = ScramCredentialDeletion | ScramCredentialUpsertion


class _KafkaNumberError(InvalidRequestError):
    """An error whose number HTTP does not have."""

    def __init__(self, number: KafkaError, message: str) -> None:
        super().__init__(message)
        self.number = number


def _number(error: RaftlogError) -> int:
    return error.number if isinstance(error, _KafkaNumberError) else special_number(error) or error_number(error)


# DescribeUserScramCredentials.


async def describe_users(
    call: KafkaCall, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """List users, or those that are named, with their mechanisms; never with keys."""
    named = [user.name for user in request.users or ()]
    if (refusal := require_few(call, named, "users")) is not None:
        return DescribeUserScramCredentialsResponse(error_code=_number(refusal), error_message=refusal.message)
    try:
        image = await AdminRequest.begin(call).image()
    except RaftlogError as error:
        return DescribeUserScramCredentialsResponse(error_code=_number(error), error_message=error.message)
    twice = repeated(named)
    names = list(dict.fromkeys(named)) or sorted(image.users)
    call.is_large = len(names) > 500
    results = [_described(image, name, is_twice=name in twice) async for name in in_slices(names, 512)]
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)


def _described(image: MetadataImage, name: str, *, is_twice: bool) -> DescribeUserScramCredentialsResult:
    known = image.users.get(name)
    if is_twice:
        return DescribeUserScramCredentialsResult(
            user=name, error_code=KafkaError.DUPLICATE_RESOURCE, error_message="the user is named more than once"
        )
    if known is None:
        return DescribeUserScramCredentialsResult(
            user=name, error_code=KafkaError.RESOURCE_NOT_FOUND, error_message=f"there is no user {name!r:.200}"
        )
    infos = [
        CredentialInfo(mechanism=_NUMBERS[mechanism], iterations=verifier.iterations)
        for mechanism, verifier in known.verifiers.items()
    ]
    return DescribeUserScramCredentialsResult(user=name, error_message=None, credential_infos=infos)


# AlterUserScramCredentials.


async def alter_users(call: KafkaCall, request: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
    """Create users, change their passwords, and delete users; each has its own answer."""
    changes: list[_Change] = [*request.deletions, *request.upsertions]
    if (refusal := require_few(call, changes, "users")) is not None:
        results = [_result(one.name, refusal) async for one in in_slices(changes, 512)]
        return AlterUserScramCredentialsResponse(results=results)
    admin = AdminRequest.begin(call)
    twice = repeated(one.name for one in changes)
    altered = await each(changes, partial(_alter, admin, twice))
    answers: dict[str, Result[None]] = {}
    for change, result in zip(changes, altered, strict=True):
        answers[change.name] = result
    return AlterUserScramCredentialsResponse(results=[_result(*one) for one in answers.items()])


async def _alter(admin: AdminRequest, twice: set[object], change: _Change) -> None:
    if change.name in twice:
        raise _KafkaNumberError(
            KafkaError.DUPLICATE_RESOURCE, "the user is in the request more than once; nothing was done for it"
        )
    mechanism = MECHANISMS.get(change.mechanism)
    if mechanism is None:
        raise _KafkaNumberError(
            KafkaError.UNSUPPORTED_SASL_MECHANISM,
            f"mechanism: expected 1 (SCRAM-SHA-256) or 2 (SCRAM-SHA-512), received {change.mechanism}",
        )
    if isinstance(change, ScramCredentialUpsertion):
        credential = _credential(change, mechanism)
        await admin.send(paths.PUT_USER, PutUserRequest(credential=credential, mechanism=mechanism))
        return
    try:
        await admin.send(paths.DELETE_USER, DeleteUserRequest(user=change.name, mechanism=mechanism))
    except NotFoundError as error:
        raise NotFoundError(error.message, code=ErrorCode.RESOURCE_NOT_FOUND) from None


def _credential(change: ScramCredentialUpsertion, mechanism: str) -> UserCredential:
    """Return what is stored of a salted password.

    Raises:
        InvalidRequestError: UNACCEPTABLE_CREDENTIAL: it would be cheap to attack, or make each login slow.
    """
    if not MIN_SCRAM_ITERATIONS <= change.iterations <= MAX_ITERATIONS:
        raise _KafkaNumberError(
            KafkaError.UNACCEPTABLE_CREDENTIAL,
            f"iterations: expected {MIN_SCRAM_ITERATIONS} to {MAX_ITERATIONS}, received {change.iterations}; with "
            f"kafka-configs, add iterations={MIN_SCRAM_ITERATIONS} before the password",
        )
    salt, salted = bytes(change.salt), bytes(change.salted_password)
    if not MIN_SALT_BYTES <= len(salt) <= _MOST_SALT_BYTES:
        raise _KafkaNumberError(
            KafkaError.UNACCEPTABLE_CREDENTIAL,
            f"salt: expected {MIN_SALT_BYTES} to {_MOST_SALT_BYTES} bytes, received {len(salt)}",
        )
    if len(salted) != KEY_BYTES[mechanism]:
        raise _KafkaNumberError(
            KafkaError.UNACCEPTABLE_CREDENTIAL,
            f"salted_password: expected the {KEY_BYTES[mechanism]} bytes of {mechanism}, received {len(salted)}",
        )
    return UserCredential.of(change.name, {mechanism: verifier_of(mechanism, salted, salt, change.iterations)})


def _result(name: str, result: Result[None]) -> AlterUserScramCredentialsResult:
    if isinstance(result, RaftlogError):
        return AlterUserScramCredentialsResult(user=name, error_code=_number(result), error_message=result.message)
    return AlterUserScramCredentialsResult(user=name, error_message=None)


def _failed(_: KafkaCall, request: AlterUserScramCredentialsRequest, number: int) -> AlterUserScramCredentialsResponse:
    changes: list[_Change] = [*request.deletions, *request.upsertions]
    names = dict.fromkeys(one.name for one in changes)
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(user=name, error_code=number, error_message=None) for name in names]
    )


HANDLERS: Final[Handlers] = {
    50: Served(handle=describe_users, most_elements=MAX_ELEMENTS),
    51: Served(handle=alter_users, failed=_failed, most_elements=MAX_ELEMENTS),
}
