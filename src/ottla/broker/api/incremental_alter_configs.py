"""IncrementalAlterConfigs (KIP-339): set, delete, append to and subtract from single keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.base import ErrorCode, KafkaError
from ottla.broker.loggers import change_levels
from ottla.broker.parts import ControllerParts
from ottla.broker.requests.forwarding import from_controller
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.refusals import not_allowed
from ottla.broker.requests.slices import Pauses
from ottla.metadata import Image, ResourceType, decide
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.alter_configs import AlterConfigsRequest
from ottla.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

__all__ = ["HANDLER"]

MAKES_ROOM = frozenset(
    {
        "cleanup.policy",
        "file.delete.delay.ms",
        "retention.bytes",
        "retention.ms",
        "log.cleanup.policy",
        "log.retention.bytes",
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
        "log.segment.delete.delay.ms",
    }
)
"""Settings by which somebody whose disk is full gets room."""


async def incremental_alter_configs(
    context: RequestContext[ControllerParts], request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change each resource by itself, and answer once that is committed; loggers change here and at once."""
    results: list[AlterConfigsResourceResponse] = []
    stored: list[AlterConfigsResource] = []
    pauses = Pauses(context)
    own = own_named_once(context, request)
    for resource in request.resources:
        await pauses.step()
        if not may_alter(context, resource.resource_type, resource.resource_name):
            results.append(_result(resource, refusal(resource.resource_type)))
        elif resource.resource_type == ResourceType.BROKER_LOGGER:
            results.append(_result(resource, _change_loggers(context, request, resource)))
        elif (resource.resource_type, resource.resource_name) == own and (
            error := await _refused_stores(context, request, resource)
        ):
            results.append(_result(resource, error))
        else:
            stored.append(resource)
    pauses.charge()
    if stored or not results:
        answer = await from_controller(STORED, context, request.replace(resources=stored))
        results += answer.responses
    return IncrementalAlterConfigsResponse(responses=results)


async def _alter_stored(
    context: RequestContext[ControllerParts], request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change what the cluster's metadata holds."""
    services = context.services

    def decision(image: Image) -> decide.Decision[list[decide.AlteredConfig]]:
        return decide.alter_configs(
            image, request, config=services.configuration.broker, policy=services.policies.configs
        )

    altered = await services.quorum.submit(decision, makes_room=may_make_room(request))
    return IncrementalAlterConfigsResponse(responses=[_answer(each) for each in altered])


def may_make_room(request: AlterConfigsRequest | IncrementalAlterConfigsRequest) -> bool:
    """Return whether a request changes what lets records go, which somebody may want because the disk is full."""
    return any(each.name in MAKES_ROOM for resource in request.resources for each in resource.configs)


def may_alter(context: RequestContext[ControllerParts], kind: int, name: str) -> bool:
    """Return whether the client may change this resource's configuration."""
    if kind == ResourceType.TOPIC:
        return context.allows(Operation.ALTER_CONFIGS, Resource.TOPIC, name)
    if kind == ResourceType.GROUP:
        return context.allows(Operation.ALTER_CONFIGS, Resource.GROUP, name)
    if kind == ResourceType.BROKER_LOGGER and context.connected.is_controller:
        return context.allows(Operation.CLUSTER_ACTION, Resource.CLUSTER)
    return context.allows(Operation.ALTER_CONFIGS, Resource.CLUSTER)


def refusal(kind: int) -> KafkaError:
    """Return the error for who may not."""
    resources = {int(ResourceType.TOPIC): Resource.TOPIC, int(ResourceType.GROUP): Resource.GROUP}
    return not_allowed(resources.get(kind, Resource.CLUSTER))


def _change_loggers(
    context: RequestContext[ControllerParts], request: IncrementalAlterConfigsRequest, resource: AlterConfigsResource
) -> KafkaError | None:
    node_id = context.services.node_id
    if resource.resource_name != str(node_id):
        return KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected node id. Expected {node_id}, but received {resource.resource_name}",
        )
    operations = [(each.name, each.config_operation, each.value) for each in resource.configs]
    try:
        change_levels(operations, validate_only=request.validate_only)
    except KafkaError as error:
        return error
    return None


def own_named_once(
    context: RequestContext[ControllerParts], request: AlterConfigsRequest | IncrementalAlterConfigsRequest
) -> tuple[int, str] | None:
    """Return this broker's name where a request has it once: the controller refuses what is named twice, unchecked here."""
    own = (int(ResourceType.BROKER), str(context.services.node_id))
    return own if sum((each.resource_type, each.resource_name) == own for each in request.resources) == 1 else None


async def _refused_stores(
    context: RequestContext[ControllerParts], request: IncrementalAlterConfigsRequest, resource: AlterConfigsResource
) -> KafkaError | None:
    own = dict(context.services.image.broker_config(context.services.node_id))
    for each in resource.configs:
        if each.config_operation == decide.ConfigOperation.SET and each.value is not None:
            own[each.name] = each.value
        elif each.config_operation == decide.ConfigOperation.DELETE:
            own.pop(each.name, None)
    names = [each.name for each in resource.configs]
    name = (resource.resource_type, resource.resource_name)
    return await refused_stores(context, name, own, names=names, applies=not request.validate_only)


async def refused_stores(
    context: RequestContext[ControllerParts],
    resource: tuple[int, str],
    own: Mapping[str, str],
    *,
    names: Iterable[str],
    applies: bool,
) -> KafkaError | None:
    """Return why this broker's listeners cannot be as they are wanted: only it can open stores, and knows its logins.

    `own` is all that would be configured for this broker, `names` what the client names of it.
    """
    services = context.services
    if resource != (ResourceType.BROKER, str(services.node_id)) or context.connected.is_controller:
        return None
    try:
        services.encryption.check(services.image, own, names=(named := frozenset(names)), applies=applies)
        await services.logins.check(services.image, own, named)
    except KafkaError as error:
        return error
    return None


def _answer(altered: decide.AlteredConfig) -> AlterConfigsResourceResponse:
    error = altered.error
    return AlterConfigsResourceResponse(
        error_code=int(error.code) if error else 0,
        error_message=error.message if error else None,
        resource_type=altered.resource.type,
        resource_name=altered.resource.name,
    )


def _result(resource: AlterConfigsResource, error: KafkaError | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=int(error.code) if error else 0,
        error_message=error.message if error else None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def refuse(request: IncrementalAlterConfigsRequest, error: KafkaError) -> IncrementalAlterConfigsResponse:
    """Say of every resource that the request failed."""
    return IncrementalAlterConfigsResponse(responses=[_result(each, error) for each in request.resources])


STORED = Handler(
    IncrementalAlterConfigsRequest,
    versions=(0, 1),
    needs=Needs(Operation.ALTER_CONFIGS, Resource.TOPIC),
    handle=_alter_stored,
    error_response=refuse,
)
"""The part that only the controller answers."""
HANDLER = Handler(
    IncrementalAlterConfigsRequest,
    versions=(0, 1),
    needs=Needs(Operation.ALTER_CONFIGS, Resource.TOPIC),
    handle=incremental_alter_configs,
    error_response=refuse,
    forwards=True,
    splits=True,
)
