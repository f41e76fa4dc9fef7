"""DescribeConfigs: what is in effect on a resource, and where each value comes from.

Version 1 adds sources and synonyms (KIP-226), 3 types and documentation (KIP-569). Secrets are never told.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from dataclasses import replace

from ottla.base import ErrorCode, KafkaError
from ottla.broker.client_config import client_metrics_entries, group_entries
from ottla.broker.loggers import logger_entries
from ottla.broker.parts import MetadataParts
from ottla.broker.requests.answers import Answer
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.refusals import not_allowed
from ottla.broker.requests.slices import now_or_in_slices, of_each
from ottla.config import ConfigEntry, ConfigSource
from ottla.metadata import ResourceType
from ottla.security import CLUSTER_NAME, Needs, Operation, Resource
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

__all__ = ["HANDLER"]

ENTRIES_MAX = 500_000
"""What one answer may hold: every topic of a large cluster, and not a client's hundred thousand made-up groups."""


class _Describer:
    """Makes entries' descriptions, each once: what topics do not set themselves is the same entry for all of them."""

    def __init__(self, request: DescribeConfigsRequest) -> None:
        self._request = request
        self._made: dict[int, tuple[ConfigEntry, DescribeConfigsResourceResult]] = {}
        self.count = 0

    def described(self, entries: Sequence[ConfigEntry]) -> list[DescribeConfigsResourceResult]:
        """Return what is told of entries; raises INVALID_REQUEST where all that is asked for is too much for one answer."""
        self.count += len(entries)
        if self.count > ENTRIES_MAX:
            raise _invalid(
                f"More than {ENTRIES_MAX} configuration entries are asked for: ask for fewer resources at once"
            )
        return [self._one(each) for each in entries]

    def _one(self, entry: ConfigEntry) -> DescribeConfigsResourceResult:
        found = self._made.get(id(entry))
        if found is None:
            found = self._made[id(entry)] = (
                entry,
                _described(entry, self._request),
            )  # an entry that is kept keeps its id
        return found[1]


def describe_configs(context: RequestContext[MetadataParts], request: DescribeConfigsRequest) -> Answer:
    """Describe each resource by itself, and once where it is named again with the same keys."""
    return now_or_in_slices(context, _describe_all(context, request))


def _describe_all(
    context: RequestContext[MetadataParts], request: DescribeConfigsRequest
) -> Generator[None, None, DescribeConfigsResponse]:
    describer = _Describer(request)
    asked: dict[tuple[Hashable, ...], DescribeConfigsResource] = {}
    for each in request.resources:
        keys = each.configuration_keys
        asked.setdefault((each.resource_type, each.resource_name, None if keys is None else tuple(keys)), each)
        yield
    results = yield from of_each(asked.values(), lambda each: _result(context, describer, each))
    return DescribeConfigsResponse(results=results)


def _result(
    context: RequestContext[MetadataParts], describer: _Describer, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    try:
        _authorize(context, resource)
        configs = describer.described(_entries(context, resource, resource.configuration_keys or None))
    except KafkaError as error:
        return DescribeConfigsResult(
            error_code=int(error.code),
            error_message="" if error.message == error.code.name else error.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
    return DescribeConfigsResult(
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=configs,
    )


def _authorize(context: RequestContext[MetadataParts], resource: DescribeConfigsResource) -> None:
    kinds = {int(ResourceType.TOPIC): Resource.TOPIC, int(ResourceType.GROUP): Resource.GROUP}
    kind = kinds.get(resource.resource_type, Resource.CLUSTER)
    name = CLUSTER_NAME if kind is Resource.CLUSTER else resource.resource_name
    if not context.allows(Operation.DESCRIBE_CONFIGS, kind, name):
        raise not_allowed(kind)


def _entries(
    context: RequestContext[MetadataParts], resource: DescribeConfigsResource, names: Sequence[str] | None
) -> Sequence[ConfigEntry]:
    services = context.services
    image = services.image
    name = resource.resource_name
    broker = services.configuration.broker
    match resource.resource_type:
        case ResourceType.TOPIC:
            if image.topic(name) is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return services.configuration.topic(name).entries(names)
        case ResourceType.BROKER:
            if _own(context, name, or_all=True):
                return broker.entries(names)
            return [_alone(each) for each in broker.default_entries(names)]
        case ResourceType.BROKER_LOGGER:
            _own(context, name, or_all=False)
            return logger_entries(names)
        case ResourceType.CLIENT_METRICS:
            if not name:
                raise _invalid("Client metrics subscription name must not be empty")
            return client_metrics_entries(image.config(ResourceType.CLIENT_METRICS, name), names)
        case ResourceType.GROUP:
            if not name:
                raise _invalid("Group name must not be empty")
            return group_entries(image.config(ResourceType.GROUP, name), broker, names)
        case _:
            raise _invalid(f"Unsupported resource type: {resource.resource_type}")


def _alone(entry: ConfigEntry) -> ConfigEntry:
    """Return an entry of the default for all brokers with what is set there; what is behind it differs by broker."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return replace(entry, synonyms=tuple(each for each in entry.synonyms if each.source is source))


def _own(context: RequestContext[MetadataParts], name: str, *, or_all: bool) -> bool:
    """Return whether a broker's name is this one's, not the one for all; another broker's is refused."""
    node_id = context.services.node_id
    if not name:
        if or_all:
            return False
        raise _invalid("Broker id must not be empty")
    try:
        asked = int(name)
    except ValueError:
        raise _invalid(f"Broker id must be an integer, but it is: {name}") from None
    if asked != node_id:
        expected = f"{node_id} or empty string," if or_all else f"{node_id}"
        raise _invalid(f"Unexpected broker id, expected {expected} but received {name}")
    return True


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _described(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=int(entry.source),
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=each.name, value=each.value, source=int(each.source)) for each in synonyms
        ],
        config_type=0 if entry.type is None else int(entry.type),
        documentation=entry.doc if request.include_documentation else None,
    )


def refuse(request: DescribeConfigsRequest, error: KafkaError) -> DescribeConfigsResponse:
    """Say of every resource that the request failed."""
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                error_code=int(error.code),
                error_message=error.message,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each in request.resources
        ]
    )


HANDLER = Handler(
    DescribeConfigsRequest,
    versions=(1, 4),
    needs=Needs(Operation.DESCRIBE_CONFIGS, Resource.TOPIC),
    handle=describe_configs,
    error_response=refuse,
)
