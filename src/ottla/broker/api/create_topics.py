"""CreateTopics. Version 4 takes -1 for the broker's defaults, 5 returns counts and configuration (KIP-525), 7 the id."""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError
from ottla.broker.parts import ControllerParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.mutations import mutation_quota
from ottla.broker.requests.slices import Pauses
from ottla.metadata import Image, decide
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse

__all__ = ["HANDLER"]

STRICT_FROM = 6
"""The first version in which a quota that is exceeded refuses (KIP-599)."""


async def create_topics(context: RequestContext[ControllerParts], request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Create the topics that the client may create, and answer once they are committed."""
    services = context.services
    everywhere = context.would_allow(Operation.CREATE, Resource.CLUSTER)
    allowed = set()
    pauses = Pauses(context)
    for each in request.topics:
        await pauses.step()
        if everywhere or context.allows(Operation.CREATE, Resource.TOPIC, each.name):
            allowed.add(each.name)
    pauses.charge()
    permitted = request.replace(topics=[each for each in request.topics if each.name in allowed])

    quota = mutation_quota(context, strict_from=STRICT_FROM)

    def decision(image: Image) -> decide.Decision[CreateTopicsResponse]:
        return decide.create_topics(
            image,
            permitted,
            config=services.configuration.broker,
            rng=services.rng,
            charge=None if quota is None else quota.charge,
            policy=services.policies.topics,
        )

    decided = await services.quorum.submit(decision, timeout_ms=request.timeout_ms)
    results = [_without_hidden_configs(context, each) for each in decided.topics]
    refused = dict.fromkeys(each.name for each in request.topics if each.name not in allowed)
    results += [
        CreatableTopicResult(
            name=name, error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), error_message="Authorization failed."
        )
        for name in refused
    ]
    return CreateTopicsResponse(throttle_time_ms=0 if quota is None else quota.throttle_ms, topics=results)


def _without_hidden_configs(
    context: RequestContext[ControllerParts], result: CreatableTopicResult
) -> CreatableTopicResult:
    """Leave out counts and configuration where the client may not describe the topic's configuration."""
    if result.error_code or context.allows(Operation.DESCRIBE_CONFIGS, Resource.TOPIC, result.name):
        return result
    return result.replace(
        topic_config_error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        num_partitions=-1,
        replication_factor=-1,
        configs=[],
    )


def refuse(request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    """Say of every topic that the request failed."""
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=each.name, error_code=int(error.code), error_message=error.message)
            for each in request.topics
        ]
    )


HANDLER = Handler(
    CreateTopicsRequest,
    versions=(2, 7),
    needs=Needs(Operation.CREATE, Resource.TOPIC),
    handle=create_topics,
    error_response=refuse,
    forwards=True,
)
