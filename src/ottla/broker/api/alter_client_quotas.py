"""AlterClientQuotas (KIP-546): set and remove the quotas of users, client ids and addresses (KIP-612)."""

from __future__ import annotations

from ottla.base import KafkaError
from ottla.broker.parts import ControllerParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.metadata import Image, decide
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    RequestEntryData,
    ResponseEntryData,
)

__all__ = ["HANDLER"]


async def alter_client_quotas(
    context: RequestContext[ControllerParts], request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """Change each entity by itself, and answer once that is committed."""

    def decision(image: Image) -> decide.Decision[list[decide.AlteredQuotas]]:
        return decide.alter_client_quotas(image, request)

    altered = await context.services.quorum.submit(decision)
    return AlterClientQuotasResponse(entries=[_result(each.asked, each.error) for each in altered])


def _result(asked: RequestEntryData, error: KafkaError | None) -> ResponseEntryData:
    return ResponseEntryData(
        error_code=int(error.code) if error else 0,
        error_message=error.message if error else None,
        entity=[
            EntityData(entity_type=kind, entity_name=name)
            for kind, name in {each.entity_type: each.entity_name for each in asked.entity}.items()
        ],
    )


def refuse(request: AlterClientQuotasRequest, error: KafkaError) -> AlterClientQuotasResponse:
    """Say of every entity that the request failed."""
    return AlterClientQuotasResponse(entries=[_result(each, error) for each in request.entries])


HANDLER = Handler(
    AlterClientQuotasRequest,
    versions=(0, 1),
    needs=Needs(Operation.ALTER_CONFIGS, Resource.CLUSTER),
    handle=alter_client_quotas,
    error_response=refuse,
    forwards=True,
)
