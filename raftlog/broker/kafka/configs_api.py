"""DescribeConfigs, IncrementalAlterConfigs and AlterConfigs (KIP-133, KIP-226, KIP-339, KIP-569)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from functools import partial
from typing import Any, Final

from raftlog.broker.kafka.admin_calls import (
    AdminRequest,
    Result,
    each,
    repeated,
    require_few,
    require_once,
    special_number,
)
from raftlog.broker.kafka.broker_configs import (
    all_brokers_described,
    broker_changes,
    broker_described,
    static_topic_defaults,
)
from raftlog.broker.kafka.call import Handlers, KafkaCall, Served
from raftlog.broker.kafka.config_sources import broker_levels, effective, topic_levels
from raftlog.broker.kafka.error_numbers import error_number
from raftlog.broker.kafka.topic_configs import SET, Described, altered, described, replaced, with_own_durability
from raftlog.errors import InvalidRequestError, NotFoundError, RaftlogError
from raftlog.metadata_quorum.controller.cluster_settings import decide_broker_configs
from raftlog.metadata_quorum.controller.topics import decide_alteration
from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from raftlog.metadata_quorum.records import ALL_BROKERS, ConfigValue
from raftlog.model import BrokerId
from raftlog.runtime import in_slices
from raftlog.serving.workers import in_worker
from raftlog.wire import paths
from raftlog.wire.admin import AlterTopicRequest, BrokerConfigsRequest
from raftlog.wire.kafka.messages import alter_configs as alter
from raftlog.wire.kafka.messages import incremental_alter_configs as incremental
from raftlog.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from raftlog.wire.kafka.reader import MAX_ELEMENTS


class Resource(IntEnum):
    """Kafka's number of a kind of thing that has settings."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


_INSTEAD: Final = {
    Resource.BROKER_LOGGER: "levels of logging cannot be changed while a broker runs",
    Resource.CLIENT_METRICS: "brokers do not collect metrics of clients",
    Resource.GROUP: "settings of groups are in node.toml, under group",
}
_MOST_SHOWN_RESOURCES: Final = 2_000
"""The most resources of one DescribeConfigs: each has some 30 settings."""
_SETTING_BYTES, _SYNONYM_BYTES = 300, 150
"""About what a setting takes in an answer, with its objects until it is encoded."""


def number_of(kind: int, error: RaftlogError) -> int:
    """Return Kafka's number of an error of one resource."""
    return special_number(error) or error_number(error, "topic" if kind == Resource.TOPIC else "cluster")


def _require_known(kind: int) -> None:
    """Raise if there are no settings of a kind.

    Raises:
        InvalidRequestError: the message says where they are.
    """
    if kind not in (Resource.TOPIC, Resource.BROKER):
        why = _INSTEAD.get(kind, "no such kind has settings")  # type: ignore[call-overload]
        raise InvalidRequestError(f"resource type {kind}: expected 2 (topic) or 4 (broker): {why}")


def _broker_id(name: str) -> BrokerId:
    """Return the broker of a resource; an empty name means all.

    Raises:
        InvalidRequestError: the name is not a number.
    """
    if not name:
        return ALL_BROKERS
    if not name.isascii() or not name.isdigit() or len(name) > 10:
        raise InvalidRequestError(f"broker: expected a broker's id, or nothing for all, received {name!r:.80}")
    return int(name)


# DescribeConfigs.


async def describe_configs(call: KafkaCall, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Describe the settings of topics and of this broker."""
    resources = request.resources
    refusal = require_few(call, resources, "resources", _MOST_SHOWN_RESOURCES)
    if refusal is not None:
        return DescribeConfigsResponse(results=[_undescribed(one, refusal) async for one in in_slices(resources, 512)])
    call.is_large = len(resources) > 16
    image = await AdminRequest.begin(call).image()
    results = []
    async for resource in in_slices(resources, 8):
        try:
            shown = _shown(request, resource, _described(call, image, resource))
            call.hold_answer(_bytes_of(shown))
        except RaftlogError as error:
            shown = _undescribed(resource, error)
        results.append(shown)
    return DescribeConfigsResponse(results=results)


def _bytes_of(shown: DescribeConfigsResult) -> int:
    """Return about how much memory a resource takes in an answer."""
    synonyms = sum(len(one.synonyms) for one in shown.configs)
    documentation = sum(len(one.documentation or "") for one in shown.configs)
    return _SETTING_BYTES * len(shown.configs) + _SYNONYM_BYTES * synonyms + documentation


def _described(call: KafkaCall, image: MetadataImage, resource: DescribeConfigsResource) -> Iterable[Described]:
    _require_known(resource.resource_type)
    name, access, sender = resource.resource_name, call.context.access, call.sender
    if resource.resource_type == Resource.TOPIC:
        access.require_one_of(sender, ("describe_configs", "topic", name), ("describe", "topic", name))
        topic = image.topic(name)
        if topic is None:
            raise NotFoundError(f"there is no topic {name!r:.300}")
        return described(topic_levels(call.context, topic.configs))
    access.require(sender, "describe_configs", "cluster")
    broker_id, own = _broker_id(name), call.context.config.node_id
    if broker_id == ALL_BROKERS:
        return all_brokers_described(image.broker_configs.get(ALL_BROKERS, {}))
    if broker_id != own:
        raise InvalidRequestError(f"broker: expected {own}, this broker, received {broker_id}: ask that broker itself")
    return broker_described(call.context.config, broker_levels(call.context))


def _shown(
    request: DescribeConfigsRequest, resource: DescribeConfigsResource, found: Iterable[Described]
) -> DescribeConfigsResult:
    wanted = set(resource.configuration_keys or ())
    return DescribeConfigsResult(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_setting(request, one) for one in found if not wanted or one.name in wanted],
    )


def _setting(request: DescribeConfigsRequest, one: Described) -> DescribeConfigsResourceResult:
    synonyms = one.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=one.name,
        value=one.value,
        read_only=one.read_only,
        config_source=one.source,
        synonyms=[DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source) for each in synonyms],
        config_type=one.kind,
        documentation=one.meaning if request.include_documentation else None,
    )


def _undescribed(resource: DescribeConfigsResource, error: RaftlogError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=number_of(resource.resource_type, error),
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _failed_description(_: KafkaCall, request: DescribeConfigsRequest, number: int) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                error_code=number,
                error_message=None,
                resource_type=one.resource_type,
                resource_name=one.resource_name,
            )
            for one in request.resources
        ]
    )


# IncrementalAlterConfigs and AlterConfigs.


async def incremental_alter_configs(
    call: KafkaCall, request: incremental.IncrementalAlterConfigsRequest
) -> incremental.IncrementalAlterConfigsResponse:
    """Change some settings of topics and brokers; each resource has its own answer."""
    results = await _alter(call, request.resources, partial(_incrementally, validate_only=request.validate_only))
    made = incremental.AlterConfigsResourceResponse
    return incremental.IncrementalAlterConfigsResponse(responses=await _responses(made, request.resources, results))


async def alter_configs(call: KafkaCall, request: alter.AlterConfigsRequest) -> alter.AlterConfigsResponse:
    """Replace all own settings of topics and brokers; each resource has its own answer."""
    results = await _alter(call, request.resources, partial(_wholly, validate_only=request.validate_only))
    made = alter.AlterConfigsResourceResponse
    return alter.AlterConfigsResponse(responses=await _responses(made, request.resources, results))


async def _alter(
    call: KafkaCall, resources: Sequence[Any], work: Callable[[AdminRequest, Any], Any]
) -> list[Result[None]]:
    refusal = require_few(call, resources, "resources")
    if refusal is not None:
        return [refusal] * len(resources)
    admin = AdminRequest.begin(call)
    twice = repeated((one.resource_type, one.resource_name) for one in resources)

    async def one_of(resource: Any) -> None:
        require_once((resource.resource_type, resource.resource_name), twice)
        _require_known(resource.resource_type)
        await work(admin, resource)

    return await each(resources, one_of)


async def _incrementally(
    admin: AdminRequest, resource: incremental.AlterConfigsResource, *, validate_only: bool
) -> None:
    given = [(config.name, config.config_operation, config.value) for config in resource.configs]
    if resource.resource_type == Resource.BROKER:
        await _change_broker(admin, resource.resource_name, given, validate_only=validate_only)
        return
    image, topic = await _alterable(admin, resource.resource_name)
    changes = altered(effective(admin.context, topic.configs), given)
    await _change_topic(admin, image, topic, changes, validate_only=validate_only)


async def _wholly(admin: AdminRequest, resource: alter.AlterConfigsResource, *, validate_only: bool) -> None:
    given = [(config.name, config.value) for config in resource.configs]
    if resource.resource_type == Resource.BROKER:
        named = [(name, SET, value) for name, value in given if value is not None]
        await _change_broker(admin, resource.resource_name, named, validate_only=validate_only, replaces=True)
        return
    image, topic = await _alterable(admin, resource.resource_name)
    await _change_topic(admin, image, topic, replaced(topic.configs, given), validate_only=validate_only)


async def _alterable(admin: AdminRequest, name: str) -> tuple[MetadataImage, TopicImage]:
    """Return a topic whose settings the sender may change.

    Raises:
        AuthenticationError, AuthorizationError: it may not.
        NotFoundError: the topic does not exist.
    """
    admin.context.access.require(admin.call.sender, "alter_configs", "topic", name)
    image = await admin.image()
    topic = image.topic(name)
    if topic is None:
        raise NotFoundError(f"there is no topic {name!r:.300}")
    return image, topic


async def _change_topic(
    admin: AdminRequest,
    image: MetadataImage,
    topic: TopicImage,
    changes: dict[str, ConfigValue | None],
    *,
    validate_only: bool,
) -> None:
    state = topic.partitions[0]
    replicas = len(set(state.replicas) - set(state.removing))
    configs = with_own_durability(changes, static_topic_defaults(admin.context.config), replicas)
    command = AlterTopicRequest(topic=topic.topic, configs=configs)
    if validate_only:
        await in_worker(decide_alteration, image, command)
    else:
        await admin.send(paths.ALTER_TOPIC, command)


async def _change_broker(
    admin: AdminRequest,
    name: str,
    given: Sequence[tuple[str, int, str | None]],
    *,
    validate_only: bool,
    replaces: bool = False,
) -> None:
    """Change dynamic settings of one broker, or of all.

    Args:
        replaces: settings that are not given are reset.
    """
    admin.context.access.require(admin.call.sender, "alter_configs", "cluster")
    broker_id, image = _broker_id(name), await admin.image()
    present = image.broker_configs.get(broker_id, {})
    reset: dict[str, ConfigValue | None] = dict.fromkeys(present) if replaces else {}
    command = BrokerConfigsRequest(broker_id=broker_id, configs=reset | broker_changes(present, given))
    if validate_only:
        decide_broker_configs(image, command)
    else:
        await admin.send(paths.ALTER_BROKER_CONFIGS, command)


async def _responses(made: type[Any], resources: Sequence[Any], results: Sequence[Result[None]]) -> list[Any]:
    return [
        made(
            error_code=number_of(one.resource_type, result) if isinstance(result, RaftlogError) else 0,
            error_message=result.message if isinstance(result, RaftlogError) else None,
            resource_type=one.resource_type,
            resource_name=one.resource_name,
        )
        async for one, result in in_slices(zip(resources, results, strict=True), 512)
    ]


def _failed(response: type[Any], made: type[Any], _: KafkaCall, request: Any, number: int) -> Any:
    return response(
        responses=[
            made(
                error_code=number, error_message=None, resource_type=one.resource_type, resource_name=one.resource_name
            )
            for one in request.resources
        ]
    )


HANDLERS: Final[Handlers] = {
    32: Served(handle=describe_configs, failed=_failed_description, most_elements=MAX_ELEMENTS),
    33: Served(
        handle=alter_configs,
        failed=partial(_failed, alter.AlterConfigsResponse, alter.AlterConfigsResourceResponse),
        most_elements=MAX_ELEMENTS,
    ),
    44: Served(
        handle=incremental_alter_configs,
        failed=partial(_failed, incremental.IncrementalAlterConfigsResponse, incremental.AlterConfigsResourceResponse),
        most_elements=MAX_ELEMENTS,
    ),
}
