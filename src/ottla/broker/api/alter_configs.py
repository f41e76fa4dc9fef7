"""AlterConfigs (KIP-133): replace all of a resource's configuration. Clients of today use IncrementalAlterConfigs."""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError
from ottla.broker.api.incremental_alter_configs import (
    may_alter,
    may_make_room,
    own_named_once,
    refusal,
    refused_stores,
)
from ottla.broker.parts import ControllerParts
from ottla.broker.requests.forwarding import from_controller
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.slices import Pauses
from ottla.metadata import Image, ResourceType, decide
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

__all__ = ["HANDLER"]


async def alter_configs(context: RequestContext[ControllerParts], request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Replace each resource's values by itself, but for this broker's stores where it cannot use them."""
    results: list[AlterConfigsResourceResponse] = []
    stored: list[AlterConfigsResource] = []
    pauses = Pauses(context)
    own = own_named_once(context, request)
    for resource in request.resources:
        await pauses.step()
        name = (resource.resource_type, resource.resource_name)
        error = None
        if name == own and may_alter(context, *name):
            wanted = {each.name: each.value for each in resource.configs if each.value is not None}
            named = {
                *wanted,
                *context.services.image.broker_config(context.services.node_id),
            }  # what is left out, is removed
            error = await refused_stores(context, name, wanted, names=named, applies=not request.validate_only)
        if error is not None:
            results.append(_result(resource, error))
        else:
            stored.append(resource)
    pauses.charge()
    if stored or not results:
        results += (await from_controller(STORED, context, request.replace(resources=stored))).responses
    return AlterConfigsResponse(responses=results)


async def _alter_stored(context: RequestContext[ControllerParts], request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Change what the cluster's metadata holds, and answer once that is committed."""
    services = context.services
    results: list[AlterConfigsResourceResponse] = []
    stored: list[AlterConfigsResource] = []
    pauses = Pauses(context)
    for resource in request.resources:
        await pauses.step()
        if not may_alter(context, resource.resource_type, resource.resource_name):
            results.append(_result(resource, refusal(resource.resource_type)))
        elif resource.resource_type == ResourceType.BROKER_LOGGER:
            refused = KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
            results.append(_result(resource, refused))
        else:
            stored.append(resource)
    pauses.charge()
    wanted = request.replace(resources=stored)

    def decision(image: Image) -> decide.Decision[list[decide.AlteredConfig]]:
        return decide.replace_configs(
            image, wanted, config=services.configuration.broker, policy=services.policies.configs
        )

    results += [_answer(each) for each in await services.quorum.submit(decision, makes_room=may_make_room(wanted))]
    return AlterConfigsResponse(responses=results)


def _answer(altered: decide.AlteredConfig) -> AlterConfigsResourceResponse:
    error = altered.error
    return AlterConfigsResourceResponse(
        error_code=int(error.code) if error else 0,
        error_message=error.message if error else None,
        resource_type=altered.resource.type,
        resource_name=altered.resource.name,
    )


def _result(resource: AlterConfigsResource, error: KafkaError) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=int(error.code),
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def refuse(request: AlterConfigsRequest, error: KafkaError) -> AlterConfigsResponse:
    """Say of every resource that the request failed."""
    return AlterConfigsResponse(responses=[_result(each, error) for each in request.resources])


STORED = Handler(
    AlterConfigsRequest,
    versions=(0, 2),
    needs=Needs(Operation.ALTER_CONFIGS, Resource.TOPIC),
    handle=_alter_stored,
    error_response=refuse,
)
"""The part that only the controller answers."""
HANDLER = Handler(
    AlterConfigsRequest,
    versions=(0, 2),
    needs=Needs(Operation.ALTER_CONFIGS, Resource.TOPIC),
    handle=alter_configs,
    error_response=refuse,
    forwards=True,
    splits=True,
)
