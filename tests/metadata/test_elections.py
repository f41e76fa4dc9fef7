"""Elections: by request, back to the preferred leaders, and unclean ones where they are allowed."""

from __future__ import annotations

import pytest

from ottla.base import ErrorCode, KafkaError, NodeId
from ottla.config import BrokerConfig
from ottla.metadata import Image, decide
from tests.metadata.clusters import after, cluster, registration, topic, with_topics
from tests.metadata.moves import TOPIC, UNCLEAN, alter, elect, elected, fence, part, set_config, unfence, without_elr

MOVED = {"a": [0]}


def moved_away() -> Image:
    """Partition 0 of `a` is led by 2, although 1 is preferred and in sync."""
    image = with_topics(cluster(1, 2), topic("a", assignments={0: [1, 2]}), topic("b", assignments={0: [2, 1]}))
    image = unfence(fence(image, 1), 1)
    return after(image, alter(image, 2, 1))


def test_the_preferred_replica_is_elected_when_it_is_in_sync() -> None:
    image = moved_away()
    assert part(image).leader == 2
    decision = elect(image, partitions=MOVED)
    assert elected(decision) == {("a", 0): 0}
    image = after(image, decision)
    assert (part(image).leader, part(image).isr) == (1, (2, 1))
    assert elected(elect(image, partitions=MOVED)) == {("a", 0): ErrorCode.ELECTION_NOT_NEEDED}


def test_a_preferred_replica_that_cannot_lead_is_not_available() -> None:
    image = fence(moved_away(), 1)
    decision = elect(image, partitions=MOVED)
    assert elected(decision) == {("a", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE} and decision.records == ()
    (answer,) = decision.response.replica_election_results[0].partition_result
    assert answer.error_message == "The preferred leader was not available."


def test_of_all_partitions_only_those_are_named_that_needed_an_election() -> None:
    image = moved_away()
    decision = elect(image)
    assert elected(decision) == {("a", 0): 0}
    assert [each.topic for each in decision.response.replica_election_results] == ["a", "b"]


def test_a_partition_named_twice_is_elected_once() -> None:
    decision = elect(moved_away(), partitions={"a": [0, 0]})
    assert len(decision.records) == 1


def test_what_does_not_exist_is_unknown() -> None:
    decision = elect(moved_away(), partitions={"nope": [0], "a": [5]})
    assert set(elected(decision).values()) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    texts = [each.partition_result[0].error_message for each in decision.response.replica_election_results]
    assert texts == ["No such topic as nope", "No such partition as a-5"]


def test_an_unknown_kind_of_election_is_refused() -> None:
    with pytest.raises(KafkaError) as caught:
        elect(moved_away(), kind=7)
    assert caught.value.code == ErrorCode.INVALID_REQUEST


def leaderless(**configs: str) -> Image:
    """`a` was led by 1 alone, which is fenced now; 2 lives and lacks records. No ELR."""
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    image = with_topics(cluster(1, 2), topic("a", assignments={0: [1, 2]}, configs=settings))
    image = without_elr(image)
    image = after(image, alter(image, 1))
    return fence(image, 1)


def test_an_unclean_election_is_held_by_request_although_the_configuration_forbids_it() -> None:
    image = leaderless()
    assert (part(image).leader, part(image).isr) == (-1, (1,))
    assert decide.elect_unclean_leaders(image).records == ()
    image = after(image, elect(image, UNCLEAN, MOVED))
    assert (part(image).leader, part(image).isr, part(image).leader_recovery_state) == (2, (2,), 1)
    assert elected(elect(image, UNCLEAN, MOVED)) == {("a", 0): ErrorCode.ELECTION_NOT_NEEDED}


def test_without_any_living_replica_nobody_is_eligible() -> None:
    image = fence(leaderless(), 2)
    assert elected(elect(image, UNCLEAN, MOVED)) == {("a", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}


def test_where_it_is_allowed_an_unclean_election_follows_at_once() -> None:
    image = leaderless(unclean_leader_election_enable="true")
    assert (part(image).leader, part(image).isr) == (2, (2,))


def test_the_controller_holds_unclean_elections_once_they_are_allowed() -> None:
    image = leaderless()
    allowed = BrokerConfig.load("unclean.leader.election.enable=true")
    decision = decide.elect_unclean_leaders(image, config=allowed)
    assert not decision.response
    assert part(after(image, decision)).leader == 2


def test_to_allow_unclean_elections_is_to_hold_them() -> None:
    image = leaderless()
    image = after(image, set_config(image, TOPIC, "a", "unclean.leader.election.enable", "true"))
    assert (part(image).leader, part(image).isr) == (2, (2,))


def test_what_the_controllers_own_file_says_holds_for_every_topic() -> None:
    image = without_elr(with_topics(cluster(1, 2), topic("a", assignments={0: [1, 2]})))
    image = after(image, alter(image, 1))
    allowed = BrokerConfig.load("unclean.leader.election.enable=true")
    assert part(after(image, decide.fence_broker(image, NodeId(1)))).leader == -1
    assert part(after(image, decide.fence_broker(image, NodeId(1), config=allowed))).leader == 2


def test_leaderships_go_back_to_the_preferred_replicas_a_thousand_at_a_time() -> None:
    image = with_topics(
        cluster(1, 2),
        topic("a", assignments={index: [1, 2] for index in range(3)}),
        topic("b", assignments={0: [2, 1]}),
    )
    image = unfence(fence(image, 1), 1)
    for index in range(3):
        record = next(iter(after_join(image, index)))
        image = after(image, decide.Decision((record,), None))
    assert {part(image, "a", index).leader for index in range(3)} == {2}
    decision = decide.balance_leaders(image, elections_max=2)
    assert len(decision.records) == 2 and decision.response
    image = after(image, decision)
    decision = decide.balance_leaders(image, elections_max=2)
    assert len(decision.records) == 1 and not decision.response
    image = after(image, decision)
    assert {part(image, "a", index).leader for index in range(3)} == {1}
    assert decide.balance_leaders(image).records == ()


def after_join(image: Image, index: int) -> tuple:
    from ottla.wire.messages.partition_change_record import PartitionChangeRecord

    return (PartitionChangeRecord(topic_id=image.topics["a"].id, partition_id=index, isr=[1, 2]),)


def test_an_eligible_replica_leads_alone_when_the_isr_is_empty() -> None:
    image = with_topics(cluster(1, 2, 3), topic("a", assignments={0: [1, 2, 3]}, configs={"min.insync.replicas": "2"}))
    image = fence(image, 2, 3)
    assert (part(image).leader, part(image).isr, part(image).eligible_leader_replicas) == (1, (1,), (3,)), (
        "what left an ISR that was large enough is not eligible"
    )
    image = fence(image, 1)
    gone = part(image)
    assert (gone.leader, gone.isr, gone.eligible_leader_replicas) == (-1, (), (1, 3))
    assert gone.last_known_elr == (1,)
    image = unfence(image, 3)
    back = part(image)
    assert (back.leader, back.isr, back.eligible_leader_replicas) == (3, (3,), (1,))
    assert back.last_known_elr == () and back.leader_recovery_state == 0


def test_with_someone_in_sync_an_eligible_replica_does_not_lead() -> None:
    image = with_topics(cluster(1, 2, 3), topic("a", assignments={0: [1, 2, 3]}, configs={"min.insync.replicas": "3"}))
    image = after(image, alter(image, 1, 2))
    assert part(image).eligible_leader_replicas == (3,)
    image = fence(image, 1)
    assert (part(image).leader, part(image).isr, part(image).eligible_leader_replicas) == (2, (2,), (1, 3))


def test_the_last_known_leader_leads_again_as_one_that_may_lack_records() -> None:
    image = with_topics(cluster(1, 2), topic("a", assignments={0: [1]}))
    image = after(image, decide.register_broker(image, registration(1, incarnation=1), supersede=True))
    lost = part(image)
    assert (lost.leader, lost.isr, lost.eligible_leader_replicas, lost.last_known_elr) == (-1, (), (), (1,))
    image = unfence(image, 1)
    assert (part(image).leader, part(image).isr, part(image).leader_recovery_state) == (1, (1,), 1)


def test_a_replica_in_an_offline_directory_does_not_lead() -> None:
    from ottla.metadata import DIRECTORY_LOST
    from ottla.wire.messages.partition_change_record import PartitionChangeRecord

    image = with_topics(cluster(1, 2), topic("a", assignments={0: [1, 2]}))
    own = image.brokers[1].log_dirs[0]
    change = PartitionChangeRecord(topic_id=image.topics["a"].id, partition_id=0, directories=[own, DIRECTORY_LOST])
    image = after(image, decide.Decision((change,), None))
    image = fence(image, 1)
    assert part(image).leader == -1
