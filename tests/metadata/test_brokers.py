from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.base import ErrorCode, KafkaError, NodeId, Uuid
from ottla.metadata import EMPTY_IMAGE, SUPPORTED_FEATURES, Image, apply, decide
from ottla.wire.messages.feature_level_record import FeatureLevelRecord
from tests.metadata.clusters import after, cluster, registration, started, topic, with_topics


def beat(image: Image, broker: int, *, fence: bool = False, shut_down: bool = False) -> decide.Decision:
    return decide.heartbeat(
        image,
        NodeId(broker),
        image.brokers[broker].epoch,
        caught_up=True,
        want_fence=fence,
        want_shut_down=shut_down,
    )


def state(image: Image, name: str = "a") -> tuple:
    partition = image.partition(name, 0)
    assert partition is not None
    return partition.leader, partition.isr, partition.eligible_leader_replicas, partition.last_known_elr


def test_a_broker_registers_fenced_with_the_offset_as_its_epoch_and_serves_once_unfenced() -> None:
    image = cluster()
    decision = decide.register_broker(image, registration(1), supersede=False)
    assert decision.response == image.offset + 1
    image = after(image, decision)
    assert image.brokers[1].fenced and image.brokers[1].epoch == decision.response
    image = after(image, beat(image, 1))
    assert image.brokers[1].active


def test_the_same_incarnation_registers_once() -> None:
    image = cluster(1)
    assert decide.register_broker(image, registration(1), supersede=False).records == ()


def test_another_incarnation_waits_until_the_first_is_fenced_or_known_dead() -> None:
    image = cluster(1)
    second = registration(1, incarnation=1)
    with pytest.raises(KafkaError) as caught:
        decide.register_broker(image, second, supersede=False)
    assert caught.value.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert decide.register_broker(image, second, supersede=True).records
    fenced = after(image, decide.fence_broker(image, NodeId(1)))
    assert decide.register_broker(fenced, second, supersede=False).records


def test_a_heartbeat_of_a_past_epoch_is_refused() -> None:
    image = cluster(1)
    with pytest.raises(KafkaError) as caught:
        decide.heartbeat(image, NodeId(1), 0, caught_up=True, want_fence=False, want_shut_down=False)
    assert caught.value.code == ErrorCode.STALE_BROKER_EPOCH


def test_fencing_a_leader_moves_leadership_to_another_in_sync_replica() -> None:
    image = with_topics(cluster(1, 2), topic("a", assignments={0: [1, 2]}))
    epoch = image.topics["a"].partitions[0].leader_epoch
    image = after(image, decide.fence_broker(image, NodeId(1)))
    assert state(image) == (2, (2,), (), ())
    assert image.topics["a"].partitions[0].leader_epoch == epoch + 1


def test_the_only_replica_shutting_down_stays_eligible_and_leads_again() -> None:
    image = with_topics(cluster(1), topic("a"))
    decision = beat(image, 1, shut_down=True)
    assert decision.response.should_shut_down
    image = after(image, decision)
    assert image.brokers[1].fenced and state(image) == (-1, (), (1,), (1,))
    again = decide.register_broker(image, registration(1, incarnation=1, epoch=image.brokers[1].epoch), supersede=False)
    image = after(image, again)
    image = after(image, beat(image, 1))
    assert state(image) == (1, (1,), (), ())


def test_the_only_replica_after_a_crash_leads_again_as_the_last_known_leader() -> None:
    image = with_topics(cluster(1), topic("a"))
    epoch = image.topics["a"].partitions[0].leader_epoch
    image = after(image, decide.register_broker(image, registration(1, incarnation=1), supersede=True))
    assert state(image) == (-1, (), (), (1,))
    image = after(image, beat(image, 1))
    assert state(image) == (1, (1,), (), ())
    assert image.topics["a"].partitions[0].leader_epoch == epoch + 2, "what was lost unsynced must be noticed"


def test_a_replica_that_lost_data_is_not_eligible() -> None:
    image = with_topics(cluster(1, 2), topic("a", assignments={0: [1, 2]}, configs={"min.insync.replicas": "2"}))
    image = after(image, decide.fence_broker(image, NodeId(2)))
    assert state(image) == (1, (1,), (2,), ())
    image = after(image, decide.register_broker(image, registration(2, incarnation=1), supersede=False))
    assert state(image) == (1, (1,), (), ())


def test_without_elr_the_last_in_sync_replica_stays_on_record() -> None:
    image = with_topics(cluster(1), topic("a"))
    image = apply(image, FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=0))
    image = after(image, decide.fence_broker(image, NodeId(1)))
    assert state(image) == (-1, (1,), (), ())
    image = after(image, beat(image, 1))
    assert state(image) == (1, (1,), (), ())


def test_a_broker_shuts_down_once_it_leads_nothing_and_others_know() -> None:
    image = with_topics(cluster(1, 2), topic("a", assignments={0: [1, 2]}))
    decision = beat(image, 1, shut_down=True)
    image = after(image, decision)
    assert not decision.response.should_shut_down and image.brokers[1].in_controlled_shutdown
    assert state(image)[:2] == (2, (2,))
    waits = decide.heartbeat(
        image,
        NodeId(1),
        image.brokers[1].epoch,
        caught_up=True,
        want_fence=False,
        want_shut_down=True,
        others_follow=False,
    )
    assert not waits.records and not waits.response.should_shut_down
    goes = beat(image, 1, shut_down=True)
    assert goes.response.should_shut_down and after(image, goes).brokers[1].fenced


def test_a_broker_that_leads_nothing_may_go_at_once() -> None:
    image = with_topics(cluster(1, 2), topic("a", assignments={0: [2, 1]}))
    decision = beat(image, 1, shut_down=True)
    assert decision.response.should_shut_down
    assert state(after(image, decision))[:2] == (2, (2,))


def test_the_broker_of_a_directory_that_fails_leads_there_no_more() -> None:
    image = with_topics(cluster(1, 2), topic("a", assignments={0: [1, 2]}))
    lost = image.brokers[1].log_dirs[0]
    both = replace(image.brokers[1], log_dirs=(lost, Uuid(b"another log dir ")))
    image = replace(image, brokers=image.brokers.set(1, both))
    partition = replace(image.topics["a"].partitions[0], directories=(lost, image.brokers[2].log_dirs[0]))
    changed = replace(image.topics["a"], partitions=image.topics["a"].partitions.set(0, partition))
    image = replace(image, topics=image.topics.set("a", changed))

    def told() -> decide.Decision:
        return decide.heartbeat(
            image,
            NodeId(1),
            image.brokers[1].epoch,
            caught_up=True,
            want_fence=False,
            want_shut_down=False,
            offline_log_dirs=(lost,),
        )

    image = after(image, told())
    assert state(image)[:2] == (2, (2,))
    assert image.brokers[1].active and image.brokers[1].log_dirs == (Uuid(b"another log dir "),)
    assert not told().records, "it is known now"


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ((), "No directories specified in request"),
        ((Uuid(bytes(15) + b"\x02"),), "Reserved directory ID in request"),
        ((Uuid(b"a log directory!"), Uuid(b"a log directory!")), "Duplicate directory ID in request"),
    ],
)
def test_a_registration_needs_directories_of_its_own(ids: tuple[Uuid, ...], text: str) -> None:
    with pytest.raises(KafkaError, match=text) as caught:
        decide.register_broker(cluster(), replace(registration(1), log_dirs=ids), supersede=False)
    assert caught.value.code == ErrorCode.INVALID_REGISTRATION


def test_a_broker_that_does_not_understand_a_finalized_level_is_refused() -> None:
    old = replace(registration(1), features={**SUPPORTED_FEATURES, "metadata.version": (7, 29)})
    with pytest.raises(KafkaError, match=r"does not support finalized version 30 of metadata\.version") as caught:
        decide.register_broker(cluster(), old, supersede=False)
    assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION


def test_an_unregistered_broker_is_gone_and_leads_nothing() -> None:
    image = with_topics(cluster(1, 2), topic("a", assignments={0: [1, 2]}))
    image = after(image, decide.unregister_broker(image, 1))
    assert 1 not in image.brokers and image.partition("a", 0).leader == 2
    with pytest.raises(KafkaError):
        decide.unregister_broker(image, 1)


def test_producer_id_blocks_never_overlap() -> None:
    image = cluster(1)
    epoch = image.brokers[1].epoch
    firsts = []
    for _ in range(3):
        decision = decide.allocate_producer_ids(image, broker_id=1, broker_epoch=epoch)
        firsts.append((decision.response.first, decision.response.size))
        image = after(image, decision)
    assert firsts == [(0, 1000), (1000, 1000), (2000, 1000)]
    with pytest.raises(KafkaError):
        decide.allocate_producer_ids(image, broker_id=1, broker_epoch=epoch + 1)


def test_bootstrap_happens_once_and_as_one_transaction() -> None:
    formatted = decide.bootstrap_records()
    decision = decide.bootstrap(EMPTY_IMAGE, formatted, min_insync_replicas=1)
    image = after(EMPTY_IMAGE, decision)
    assert not image.in_transaction and image.metadata_version == 30
    assert dict(image.default_broker_config()) == {"min.insync.replicas": "1"}
    assert decide.bootstrap(image, formatted, min_insync_replicas=1).records == ()


def test_a_controller_registers_again_only_when_something_changed() -> None:
    image = cluster(1)
    incarnation = registration(1).incarnation_id
    decision = decide.register_controller(image, NodeId(1), incarnation, ())
    image = after(image, decision)
    assert decide.register_controller(image, NodeId(1), incarnation, ()).records == ()
    assert image.controllers[1].incarnation_id == incarnation


def test_brokers_come_and_go_without_a_change_where_they_have_no_replica() -> None:
    image = with_topics(cluster(1), topic("a"))
    partition = image.partition("a", 0)
    image = started(image, 2)
    assert image.partition("a", 0) == partition
    assert replace(image.brokers[2], fenced=True) != image.brokers[2]
