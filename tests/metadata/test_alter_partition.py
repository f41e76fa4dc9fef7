"""AlterPartition: what a leader may make of its ISR, and what else becomes of the partition then."""

from __future__ import annotations

import pytest

from ottla.base import ErrorCode, KafkaError, Uuid
from ottla.metadata import Image, apply, decide
from ottla.wire.messages.alter_partition import AlterPartitionRequest, RequestPartitionData, RequestTopicData
from ottla.wire.messages.feature_level_record import FeatureLevelRecord
from tests.metadata.clusters import after, cluster, topic, with_topics
from tests.metadata.moves import alter, altered, fence, part, reassign, unfence, without_elr


def three(**configs: str) -> Image:
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    return with_topics(cluster(1, 2, 3), topic("a", assignments={0: [1, 2, 3]}, configs=settings))


def test_an_isr_shrinks_and_grows_without_a_new_leader_epoch() -> None:
    image = three()
    decision = alter(image, 1, 2)
    answer = altered(decision)
    image = after(image, decision)
    assert (answer.error_code, list(answer.isr), answer.leader_id) == (0, [1, 2], 1)
    assert (answer.leader_epoch, answer.partition_epoch) == (0, 1)
    assert (part(image).isr, part(image).leader_epoch, part(image).partition_epoch) == ((1, 2), 0, 1)
    image = after(image, alter(image, 1, 2, 3))
    assert (part(image).isr, part(image).partition_epoch) == ((1, 2, 3), 2)


def test_the_isr_as_it_is_needs_no_record() -> None:
    decision = alter(three(), 1, 2, 3)
    assert decision.records == () and altered(decision).error_code == 0


def test_a_shrunk_isr_has_a_new_leader_epoch_at_old_metadata_versions() -> None:
    image = apply(without_elr(three()), FeatureLevelRecord(name="metadata.version", feature_level=11))
    image = after(image, alter(image, 1, 2))
    assert (part(image).isr, part(image).leader, part(image).leader_epoch) == ((1, 2), 1, 1)
    image = after(image, alter(image, 1, 2, 3))
    assert part(image).leader_epoch == 1, "what grows needs none"


@pytest.mark.parametrize(
    ("isr", "how", "code"),
    [
        ((1, 2), {"leader_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        ((1, 2), {"partition_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        ((1, 2), {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ((1, 2), {"leader": 2}, ErrorCode.INVALID_REQUEST),
        ((1, 2), {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        ((), {}, ErrorCode.INVALID_REQUEST),
        ((1, 1), {}, ErrorCode.INVALID_REQUEST),
        ((1, 4), {}, ErrorCode.INVALID_REQUEST),
        ((2, 3), {}, ErrorCode.INVALID_REQUEST),
        ((1,), {"recovery": 1}, ErrorCode.INVALID_REQUEST),
        ((1, 2), {"recovery": 1}, ErrorCode.INVALID_REQUEST),
        ((1, 2), {"broker_epochs": {2: 12345}}, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_what_a_leader_may_not_ask_for(isr: tuple[int, ...], how: dict, code: ErrorCode) -> None:
    decision = alter(three(), *isr, **how)
    assert altered(decision).error_code == code and decision.records == ()


def test_the_leader_epoch_is_looked_at_before_the_leader_and_that_before_the_partition_epoch() -> None:
    image = after(three(), alter(three(), 1, 2))
    assert altered(alter(image, 1, leader=2, leader_epoch=-1)).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert altered(alter(image, 1, leader=2, partition_epoch=0)).error_code == ErrorCode.INVALID_REQUEST
    assert altered(alter(image, 9, partition_epoch=0)).error_code == ErrorCode.INVALID_UPDATE_VERSION


def test_a_broker_that_is_fenced_or_shuts_down_or_is_gone_may_not_join() -> None:
    image = fence(three(), 3)
    assert altered(alter(image, 1, 2, 3)).error_code == ErrorCode.INELIGIBLE_REPLICA
    image = unfence(image, 3)
    epochs = {each: image.brokers[each].epoch for each in (1, 2, 3)}
    assert altered(alter(image, 1, 2, 3, broker_epochs=epochs)).error_code == 0
    gone = after(image, decide.unregister_broker(image, 3))
    assert altered(alter(gone, 1, 2, 3)).error_code == ErrorCode.INELIGIBLE_REPLICA


def test_before_version_3_members_come_without_their_epochs() -> None:
    image = three()
    decision = alter(image, 1, 3, version=2, broker_epochs={3: 12345})
    assert part(after(image, decision)).isr == (1, 3)


def test_topics_and_partitions_that_do_not_exist() -> None:
    image = three()
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=image.brokers[1].epoch,
        topics=[
            RequestTopicData(topic_id=Uuid(bytes(15) + b"\x09"), partitions=[RequestPartitionData(partition_index=0)]),
            RequestTopicData(topic_id=image.topics["a"].id, partitions=[RequestPartitionData(partition_index=7)]),
        ],
    )
    answers = [each.partitions[0] for each in decide.alter_partition(image, request, version=3).response.topics]
    assert [each.error_code for each in answers] == [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_broker_of_another_epoch_is_not_heard() -> None:
    with pytest.raises(KafkaError) as caught:
        alter(three(), 1, 2, broker_epoch=3)
    assert caught.value.code == ErrorCode.STALE_BROKER_EPOCH


def test_who_leaves_too_small_an_isr_stays_eligible_until_it_is_large_enough() -> None:
    image = three(min_insync_replicas="2")
    image = after(image, alter(image, 1))
    assert (part(image).isr, part(image).eligible_leader_replicas) == ((1,), (2, 3))
    image = after(image, alter(image, 1, 3))
    assert (part(image).isr, part(image).eligible_leader_replicas) == ((1, 3), ())


def test_without_elr_nobody_is_eligible() -> None:
    image = without_elr(three(min_insync_replicas="2"))
    image = after(image, alter(image, 1))
    assert (part(image).isr, part(image).eligible_leader_replicas) == ((1,), ())


def test_a_recovering_leader_says_that_it_has_recovered_before_others_join() -> None:
    image = with_topics(
        cluster(1, 2), topic("a", assignments={0: [1, 2]}, configs={"unclean.leader.election.enable": "true"})
    )
    image = without_elr(image)
    image = after(image, alter(image, 1))
    image = fence(image, 1)
    assert (part(image).leader, part(image).isr, part(image).leader_recovery_state) == (2, (2,), 1)
    image = unfence(image, 1)
    assert altered(alter(image, 2, 1, recovery=1)).error_code == ErrorCode.INVALID_REQUEST
    image = after(image, alter(image, 2, 1))
    assert (part(image).isr, part(image).leader_recovery_state) == ((2, 1), 0)


def test_the_isr_that_holds_all_new_replicas_ends_a_reassignment() -> None:
    image = with_topics(cluster(1, 2, 3), topic("a", assignments={0: [1, 2]}))
    image = after(image, reassign(image, [2, 3]))
    assert part(image).replicas == (2, 3, 1)
    decision = alter(image, 1, 2, 3)
    assert altered(decision).error_code == ErrorCode.NEW_LEADER_ELECTED, "the old leader is no replica any more"
    image = after(image, decision)
    done = part(image)
    assert (done.replicas, done.isr, done.leader, done.leader_epoch) == ((2, 3), (2, 3), 2, 1)
    assert (done.adding_replicas, done.removing_replicas) == ((), ())


def test_a_reassignment_that_keeps_its_leader_ends_with_a_new_leader_epoch() -> None:
    image = with_topics(cluster(1, 2, 3), topic("a", assignments={0: [1, 2]}))
    image = after(image, reassign(image, [1, 3]))
    before = part(image).leader_epoch
    decision = alter(image, 1, 2, 3)
    assert altered(decision).error_code == 0
    done = part(after(image, decision))
    assert (done.replicas, done.isr, done.leader) == ((1, 3), (1, 3), 1)
    assert done.leader_epoch == before + 1, "who is no replica any more has to hear of it"
