"""Eligible leader replicas (KIP-966): what the rules leave of them when configuration changes."""

from __future__ import annotations

from ottla.metadata import Image
from ottla.wire.messages.clear_elr_record import ClearElrRecord
from tests.metadata.clusters import after, cluster, topic, with_topics
from tests.metadata.moves import BROKER, TOPIC, alter, part, set_config, without_elr


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
