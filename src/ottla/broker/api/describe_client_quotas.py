"""DescribeClientQuotas (KIP-546): the quotas that were set on what a filter finds."""

from __future__ import annotations

from ottla.base import KafkaError
from ottla.broker.parts import ImageParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.metadata import decide
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

__all__ = ["HANDLER"]


def describe_client_quotas(
    context: RequestContext[ImageParts], request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """List what the filter finds."""
    found = decide.matching_quotas(context.services.image, request.components, strict=request.strict)
    return DescribeClientQuotasResponse(
        entries=[
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[ValueData(key=key, value=value) for key, value in values.items()],
            )
            for entity, values in found
        ],
    )


def refuse(request: DescribeClientQuotasRequest, error: KafkaError) -> DescribeClientQuotasResponse:
    """Say that the request failed; there are no entries then, which is not the same as none found."""
    return DescribeClientQuotasResponse(error_code=int(error.code), error_message=error.message, entries=None)


HANDLER = Handler(
    DescribeClientQuotasRequest,
    versions=(0, 1),
    needs=Needs(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER),
    handle=describe_client_quotas,
    error_response=refuse,
)
