"""CreatePartitions (KIP-195): raise topics' partition counts."""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError
from ottla.broker.parts import ControllerParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.mutations import mutation_quota
from ottla.metadata import Image, decide
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

__all__ = ["HANDLER"]

STRICT_FROM = 3
"""The first version in which a quota that is exceeded refuses (KIP-599)."""


async def create_partitions(
    context: RequestContext[ControllerParts], request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Add the partitions of each topic by itself, and answer once they are committed."""
    services = context.services
    allowed = {each.name for each in request.topics if context.allows(Operation.ALTER, Resource.TOPIC, each.name)}
    permitted = request.replace(topics=[each for each in request.topics if each.name in allowed])
    quota = mutation_quota(context, strict_from=STRICT_FROM)

    def decision(image: Image) -> decide.Decision[CreatePartitionsResponse]:
        return decide.create_partitions(
            image, permitted, rng=services.rng, charge=None if quota is None else quota.charge
        )

    decided = await services.quorum.submit(decision, timeout_ms=request.timeout_ms)
    refused = dict.fromkeys(each.name for each in request.topics if each.name not in allowed)
    return CreatePartitionsResponse(
        throttle_time_ms=0 if quota is None else quota.throttle_ms,
        results=[
            *decided.results,
            *(
                CreatePartitionsTopicResult(name=name, error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
                for name in refused
            ),
        ],
    )


def refuse(request: CreatePartitionsRequest, error: KafkaError) -> CreatePartitionsResponse:
    """Say of every topic that the request failed."""
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=each.name, error_code=int(error.code), error_message=error.message)
            for each in request.topics
        ]
    )


HANDLER = Handler(
    CreatePartitionsRequest,
    versions=(0, 3),
    needs=Needs(Operation.ALTER, Resource.TOPIC),
    handle=create_partitions,
    error_response=refuse,
    forwards=True,
)
