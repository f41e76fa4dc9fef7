from __future__ import annotations

from ottla.base import ZERO_UUID, NodeId
from ottla.metadata import EMPTY_IMAGE, ConfigResource, ResourceType, decide, delta_between
from tests.metadata.clusters import after, cluster, topic, with_topics


def test_nothing_differs_from_itself() -> None:
    image = with_topics(cluster(1), topic("a"))
    assert delta_between(image, image) == delta_between(EMPTY_IMAGE, EMPTY_IMAGE)


def test_new_topics_and_their_configs_are_named() -> None:
    old = cluster(1)
    new = with_topics(old, topic("b"), topic("a", configs={"retention.ms": "1"}))
    delta = delta_between(old, new)
    assert delta.topics_changed == ("a", "b") and delta.topics_deleted == ()
    assert delta.configs_changed == (ConfigResource(ResourceType.TOPIC, "a"),)


def test_a_topic_made_again_is_both_deleted_and_changed() -> None:
    old = with_topics(cluster(1), topic("a"))
    gone = after(old, decide.delete_topics(old, [("a", ZERO_UUID)]))
    new = with_topics(gone, topic("a", 2))
    delta = delta_between(old, new)
    assert delta.topics_changed == ("a",)
    assert [each.id for each in delta.topics_deleted] == [old.topics["a"].id]


def test_a_moved_leader_changes_its_topic_and_a_fenced_broker_itself() -> None:
    old = with_topics(cluster(1, 2), topic("a", assignments={0: [1, 2]}), topic("b", assignments={0: [2]}))
    delta = delta_between(old, after(old, decide.fence_broker(old, NodeId(1))))
    assert (delta.topics_changed, delta.brokers_changed) == (("a",), (1,))


def test_features_are_named() -> None:
    assert "metadata.version" in delta_between(EMPTY_IMAGE, cluster()).features_changed
