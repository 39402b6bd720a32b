"""Administration of brokers, users, access rules and quotas."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from aiohttp import web

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import check_query, json_bytes, json_response, parse_integer, read_json
from raftlog.broker.openapi.parameters import ACL_FILTER, CONSISTENCY, LIMIT, PAGE, Parameter
from raftlog.broker.paging import Wanted, names_of
from raftlog.broker.routes.metadata_access import administer, read_image
from raftlog.errors import ErrorCode, InvalidRequestError, NotFoundError
from raftlog.metadata_quorum.records import ALL_BROKERS, FEATURE_LEVEL
from raftlog.model import Acl, BrokerId, Quota, UserCredential, acl_order
from raftlog.runtime import in_slices
from raftlog.schema import from_plain
from raftlog.security.passwords import scram_credential
from raftlog.serving.workers import derive_key, in_worker
from raftlog.wire import paths
from raftlog.wire.admin import (
    AclFilter,
    AclsRequest,
    AclsResponse,
    BrokerConfigsBody,
    BrokerConfigsRequest,
    BrokerConfigsResponse,
    DeleteUserRequest,
    FeaturesBody,
    FeaturesResponse,
    PasswordBody,
    PutUserRequest,
    QuotaRequest,
    QuotasResponse,
    UnregisterBrokerRequest,
    UserInfo,
    UsersResponse,
)
from raftlog.wire.answers import DeletedUser, UnregisteredBroker
from raftlog.wire.codec import encode_listing
from raftlog.wire.saslprep import prepared

MIN_PASSWORD_LENGTH = 8
_INLINE_ACLS = 500
"""More rules are sorted and rendered in a worker thread."""


class AdminRoutes:
    """Handlers that forward requests to the active controller, and listings from the image."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def add_to(self, app: web.Application) -> None:
        """Register every path."""
        app.router.add_delete(paths.BROKER, self.unregister_broker)
        app.router.add_get(paths.BROKER_CONFIGS, self.broker_configs)
        app.router.add_patch(paths.BROKER_CONFIGS, self.alter_broker_configs)
        app.router.add_get(paths.FEATURES, self.features)
        app.router.add_patch(paths.FEATURES, self.set_features)
        app.router.add_get(paths.USERS, self.users)
        app.router.add_put(paths.USER, self.put_user)
        app.router.add_delete(paths.USER, self.delete_user)
        app.router.add_get(paths.ACLS, self.acls)
        app.router.add_post(paths.ACLS, self.create_acls)
        app.router.add_delete(paths.ACLS, self.delete_acls)
        app.router.add_get(paths.QUOTAS, self.quotas)
        app.router.add_patch(paths.QUOTAS, self.alter_quota)

    async def unregister_broker(self, request: web.Request) -> web.Response:
        """Remove the registration of a broker."""
        check_query(request)
        command = UnregisterBrokerRequest(broker_id=_broker_id(request))
        await administer(self._context, paths.UNREGISTER_BROKER, command, request)
        return json_response(UnregisteredBroker(broker_id=command.broker_id, unregistered=True))

    async def broker_configs(self, request: web.Request) -> web.Response:
        check_query(request, CONSISTENCY)
        image = await read_image(self._context, request)
        configs = image.broker_configs.get(_broker_id(request), {})
        return json_response(BrokerConfigsResponse(configs=configs))

    async def alter_broker_configs(self, request: web.Request) -> web.Response:
        """Change dynamic settings of one broker, or (`default`) of all."""
        check_query(request)
        body = await read_json(request, BrokerConfigsBody)
        command = BrokerConfigsRequest(broker_id=_broker_id(request), configs=body.configs)
        await administer(self._context, paths.ALTER_BROKER_CONFIGS, command, request)
        return json_response(
            BrokerConfigsResponse(configs=self._context.image.broker_configs.get(command.broker_id, {}))
        )

    async def features(self, request: web.Request) -> web.Response:
        check_query(request, CONSISTENCY)
        return self._features((await read_image(self._context, request)).feature_level)

    async def set_features(self, request: web.Request) -> web.Response:
        """Raise the feature level."""
        check_query(request)
        await administer(self._context, paths.SET_FEATURES, await read_json(request, FeaturesBody), request)
        return self._features(self._context.image.feature_level)

    def _features(self, level: int) -> web.Response:
        return json_response(FeaturesResponse(feature_level=level, max_feature_level=FEATURE_LEVEL))

    async def users(self, request: web.Request) -> web.Response:
        check_query(request, CONSISTENCY, *PAGE)
        users, wanted = (await read_image(self._context, request)).users, Wanted.of(request)
        page = await names_of(users, wanted)
        answer = UsersResponse(
            users=tuple(_user_info(users[name]) for name in page.shown),
            authorizer=self._context.access.mode,
            matching=page.matching,
            next=page.next,
        )
        return json_response(answer)

    async def put_user(self, request: web.Request) -> web.Response:
        """Create a user or change its password; only the SCRAM credential is stored."""
        check_query(request)
        password = await _read_password(request)
        if len(password) < MIN_PASSWORD_LENGTH:
            raise InvalidRequestError(
                f"password: expected at least {MIN_PASSWORD_LENGTH} characters, received {len(password)}"
            )
        prepared(password)  # Raises for characters that are not allowed.
        salts = secrets.token_bytes(16), secrets.token_bytes(16)
        credential = await derive_key(scram_credential, request.match_info["user"], password, *salts)
        await administer(self._context, paths.PUT_USER, PutUserRequest(credential=credential), request)
        return json_response(_user_info(self._context.image.users.get(credential.user, credential)))

    async def delete_user(self, request: web.Request) -> web.Response:
        check_query(request)
        command = DeleteUserRequest(user=request.match_info["user"])
        await administer(self._context, paths.DELETE_USER, command, request)
        return json_response(DeletedUser(user=command.user, deleted=True))

    async def acls(self, request: web.Request) -> web.Response:
        """List access rules, filtered by the rule's fields in the query."""
        wanted, limit = _acl_filter(request, CONSISTENCY, LIMIT), Wanted.of(request).limit
        image = await read_image(self._context, request)
        found = [acl async for acl in in_slices(image.acls, 512) if wanted.fits(acl)]
        return await self._acls(found, limit=limit)

    async def create_acls(self, request: web.Request) -> web.Response:
        check_query(request)
        command = await read_json(request, AclsRequest)
        await administer(self._context, paths.CREATE_ACLS, command, request)
        return await self._acls(command.acls, status=201)

    async def delete_acls(self, request: web.Request) -> web.Response:
        """Delete the access rules that match the query; return them."""
        wanted = _acl_filter(request)
        answer = await administer(self._context, paths.DELETE_ACLS, wanted, request)
        deleted = await in_worker(from_plain, AclsRequest, answer.result, ignore_unknown=True)
        return await self._acls(deleted.acls)

    async def _acls(self, acls: Sequence[Acl], *, status: int = 200, limit: int | None = None) -> web.Response:
        """Return rules; the first ones in their order if there is a limit."""

        def render() -> bytes:
            shown = tuple(acls) if limit is None else tuple(sorted(acls, key=acl_order)[:limit])
            return encode_listing(AclsResponse(acls=shown, authorizer=self._context.access.mode, matching=len(acls)))

        body = await in_worker(render) if len(acls) > _INLINE_ACLS else render()
        return json_bytes(body, status=status)

    async def quotas(self, request: web.Request) -> web.Response:
        check_query(request, CONSISTENCY)
        return self._quotas((await read_image(self._context, request)).quotas)

    async def alter_quota(self, request: web.Request) -> web.Response:
        """Change some limits of one entity; return all quotas."""
        check_query(request)
        await administer(self._context, paths.ALTER_QUOTA, await read_json(request, QuotaRequest), request)
        return self._quotas(self._context.image.quotas)

    def _quotas(self, quotas: Mapping[tuple[str, str], Quota]) -> web.Response:
        enforced_for = "anonymous" if self._context.access.is_off else "users"
        found = tuple(quotas[key] for key in sorted(quotas))
        return json_response(QuotasResponse(quotas=found, enforced_for=enforced_for))


def _user_info(credential: UserCredential) -> UserInfo:
    mechanisms = tuple(credential.verifiers)
    return UserInfo(user=credential.user, mechanism=mechanisms[0] if mechanisms else "", mechanisms=mechanisms)


def _broker_id(request: web.Request) -> BrokerId:
    text = request.match_info["broker"]
    if text == "default":
        return ALL_BROKERS
    number = parse_integer(text)
    if number is None or number < 0:
        raise NotFoundError(f"broker: expected a number or default, received {text!r:.80}", code=ErrorCode.NOT_FOUND)
    return number


def _acl_filter(request: web.Request, *others: Parameter) -> AclFilter:
    check_query(request, *ACL_FILTER, *others)
    return from_plain(AclFilter, {one.name: request.query[one.name] for one in ACL_FILTER if one.name in request.query})


async def _read_password(request: web.Request) -> str:
    """Return the password in a body. Errors do not quote the body, as those of other requests do."""
    try:
        return (await read_json(request, PasswordBody)).password
    except InvalidRequestError as error:
        if error.code is not ErrorCode.INVALID_REQUEST:
            raise  # Another content type: the body was not read.
    raise InvalidRequestError('the body: expected {"password": "..."}; it is not shown, since it may hold a password')
