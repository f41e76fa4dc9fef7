"""The topics in which workers keep what they share: made where they are missing, refused where they would lose it."""

from __future__ import annotations

import logging

from ottla.base import ConfigError, ErrorCode
from ottla.client import Client, NewTopic, create_topics
from ottla.connect.distributed.settings import StorageTopic
from ottla.connect.errors import ConnectError
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

__all__ = ["prepare_topic"]

log = logging.getLogger(__name__)
_TOPIC = 2
"""The type of resource that a topic is."""
_NOT_ALLOWED = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


async def prepare_topic(client: Client, wanted: StorageTopic) -> int:
    """Return how many partitions a topic has, having made it where it was missing.

    Raises ConfigError where it exists and would not keep what workers write, ConnectError where it cannot be made.
    """
    found = (await client.metadata([wanted.name])).topics.get(wanted.name)
    if found is None or found.error:
        made = await _create(client, wanted)
    else:
        made = False
    if not made:
        await _check_policy(client, wanted)
    topic = (await client.metadata([wanted.name])).topics.get(wanted.name)
    count = wanted.partitions if topic is None or topic.error else len(topic.partitions)
    if wanted.setting == "config.storage.topic" and count != 1:
        raise ConfigError(
            *(wanted.setting, wanted.name, ""),
            f"Topic '{wanted.name}' supplied via the '{wanted.setting}' property is required to have a single partition in "
            f"order to guarantee consistency of connector configurations, but found {count} partitions.",
        )
    return count


async def _create(client: Client, wanted: StorageTopic) -> bool:
    """Return True where the topic was made just now, False where another worker was quicker."""
    config = {**wanted.config, "cleanup.policy": "compact"}
    topic = NewTopic(wanted.name, wanted.partitions, wanted.replication_factor, config)
    error = (await create_topics(client, [topic])).get(wanted.name)
    if error is None:
        log.info("Created topic %s with %d partitions", wanted.name, wanted.partitions)
        return True
    code = error.code
    if code is ErrorCode.TOPIC_ALREADY_EXISTS:
        return False
    if code is ErrorCode.INVALID_REPLICATION_FACTOR:
        key = wanted.setting.removesuffix("topic") + "replication.factor"
        why = error.message.rstrip(".")
        raise ConfigError(
            *(key, wanted.replication_factor, ""),
            f"Unable to create topic '{wanted.name}' with {key}={wanted.replication_factor}: {why}. Set {key} to at most "
            "the number of brokers (1 for a single one)",
        )
    raise ConnectError(f"Error while attempting to create/find topic(s) '{wanted.name}': {error}")


async def _check_policy(client: Client, wanted: StorageTopic) -> None:
    resource = DescribeConfigsResource(
        resource_type=_TOPIC, resource_name=wanted.name, configuration_keys=["cleanup.policy"]
    )
    answer = await client.request(DescribeConfigsRequest(resources=[resource]))
    result = answer.results[0]
    if result.error_code in _NOT_ALLOWED:
        log.info("Not allowed to see whether topic %s has cleanup.policy=compact", wanted.name)
        return
    policy = next((each.value for each in result.configs if each.name == "cleanup.policy"), None)
    if policy is None or policy.strip() == "compact":
        return
    raise ConfigError(
        *(wanted.setting, wanted.name, ""),
        f"Topic '{wanted.name}' supplied via the '{wanted.setting}' property is required to have 'cleanup.policy=compact' "
        f"to guarantee consistency and durability of {wanted.purpose}, but found the topic currently has "
        f"'cleanup.policy={policy}'. Continuing would likely result in eventually losing {wanted.purpose} and problems "
        f"restarting this Connect cluster in the future. Change the '{wanted.setting}' property in the Connect worker "
        "configurations to use a topic with 'cleanup.policy=compact'.",
    )
