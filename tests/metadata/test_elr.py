"""Eligible leader replicas (KIP-966): what the rules leave of them when configuration changes."""

from __future__ import annotations

from typing import Any

from ottla.config import BrokerConfig
from ottla.metadata import Image, decide
from ottla.wire.messages.clear_elr_record import ClearElrRecord
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.metadata.clusters import after, cluster, topic, with_topics
from tests.metadata.moves import alter, part, without_elr

TOPIC, BROKER = 2, 4


def set_config(image: Image, kind: int, name: str, key: str, value: str) -> decide.Decision[Any]:
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[AlterableConfig(name=key, config_operation=0, value=value)],
            )
        ]
    )
    return decide.alter_configs(image, request, config=BrokerConfig.load(""))


def shrunk() -> Image:
    """Topics `a` and `b` with one copy in sync of the two that are needed, and two eligible."""
    settings = {"min.insync.replicas": "2"}
    image = with_topics(
        cluster(1, 2, 3),
        topic("a", assignments={0: [1, 2, 3]}, configs=settings),
        topic("b", assignments={0: [1, 2, 3]}, configs=settings),
    )
    image = after(image, alter(image, 1))
    return after(image, alter(image, 1, name="b"))


def test_another_min_isr_of_a_topic_forgets_its_eligible_replicas() -> None:
    image = shrunk()
    assert part(image, "a").eligible_leader_replicas == (2, 3)
    image = after(image, set_config(image, TOPIC, "a", "min.insync.replicas", "3"))
    assert part(image, "a").eligible_leader_replicas == ()
    assert part(image, "b").eligible_leader_replicas == (2, 3)


def test_another_min_isr_of_all_brokers_forgets_all_eligible_replicas() -> None:
    image = shrunk()
    image = after(image, set_config(image, BROKER, "", "min.insync.replicas", "3"))
    assert {part(image, name).eligible_leader_replicas for name in "ab"} == {()}


def test_other_keys_and_values_that_stay_forget_nothing() -> None:
    image = shrunk()
    for key, value in (("retention.ms", "5"), ("min.insync.replicas", "2")):
        decision = set_config(image, TOPIC, "a", key, value)
        assert not [each for each in decision.records if isinstance(each, ClearElrRecord)]


def test_without_elr_there_is_nothing_to_forget() -> None:
    decision = set_config(without_elr(shrunk()), TOPIC, "a", "min.insync.replicas", "3")
    assert not [each for each in decision.records if isinstance(each, ClearElrRecord)]
