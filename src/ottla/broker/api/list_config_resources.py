"""ListConfigResources (KIP-1142): what has, or can have, configuration. Version 0 lists client metrics only (KIP-1000)."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.base import ErrorCode, KafkaError
from ottla.broker.parts import ImageParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.metadata import Image, ResourceType
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

__all__ = ["HANDLER"]

SUPPORTED = (
    *(ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER),
    *(ResourceType.CLIENT_METRICS, ResourceType.GROUP),
)


def list_config_resources(
    context: RequestContext[ImageParts], request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """List the resources of the kinds asked for, or of every kind."""
    kinds: Iterable[int] = request.resource_types or SUPPORTED
    if context.api_version == 0:
        kinds = (ResourceType.CLIENT_METRICS,)
    unknown = [kind for kind in kinds if kind not in SUPPORTED]
    if unknown:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    image = context.services.image
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in dict.fromkeys(kinds)
            for name in _names(image, kind)
        ]
    )


def _names(image: Image, kind: int) -> list[str]:
    if kind == ResourceType.TOPIC:
        return sorted(image.topics)
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(broker_id) for broker_id in sorted(image.brokers)]
    return sorted(resource.name for resource in image.configs if resource.type == kind)


HANDLER = Handler(
    ListConfigResourcesRequest,
    versions=(0, 1),
    needs=Needs(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER),
    handle=list_config_resources,
)
