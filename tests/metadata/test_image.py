from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base import CorruptionError, LeaderEpoch, NodeId, Offset
from ottla.metadata import EMPTY_IMAGE, Image, apply, apply_all, decide, lowered, record_version, snapshot_records
from ottla.wire import decode_metadata_record, encode_metadata_record
from ottla.wire.messages.abort_transaction_record import AbortTransactionRecord
from ottla.wire.messages.access_control_entry_record import AccessControlEntryRecord
from ottla.wire.messages.begin_transaction_record import BeginTransactionRecord
from ottla.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.wire.messages.clear_elr_record import ClearElrRecord
from ottla.wire.messages.client_quota_record import ClientQuotaRecord, EntityData
from ottla.wire.messages.config_record import ConfigRecord
from ottla.wire.messages.delegation_token_record import DelegationTokenRecord
from ottla.wire.messages.end_transaction_record import EndTransactionRecord
from ottla.wire.messages.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.no_op_record import NoOpRecord
from ottla.wire.messages.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.partition_record import PartitionRecord
from ottla.wire.messages.producer_ids_record import ProducerIdsRecord
from ottla.wire.messages.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from ottla.wire.messages.register_controller_record import ControllerEndpoint, RegisterControllerRecord
from ottla.wire.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from ottla.wire.messages.remove_topic_record import RemoveTopicRecord
from ottla.wire.messages.topic_record import TopicRecord
from ottla.wire.messages.user_scram_credential_record import UserScramCredentialRecord
from tests.metadata.clusters import cluster, topic, uuid, with_topics

NAMES = st.text("abc._-", min_size=1, max_size=6)
IDS = st.lists(st.integers(0, 9), max_size=4, unique=True)
TOPIC_COUNT = 4

FREE = st.one_of(
    st.builds(
        ConfigRecord,
        resource_type=st.sampled_from([2, 4, 16, 32]),
        resource_name=st.sampled_from(["", "t0", "1", "g"]),
        name=NAMES,
        value=st.none() | NAMES,
    ),
    st.builds(
        FeatureLevelRecord,
        name=st.sampled_from(["metadata.version", "group.version"]),
        feature_level=st.integers(0, 30),
    ),
    st.builds(ProducerIdsRecord, broker_id=st.integers(0, 9), next_producer_id=st.integers(1, 10**6)),
    st.builds(
        ClientQuotaRecord,
        entity=st.lists(
            st.builds(
                EntityData, entity_type=st.sampled_from(["user", "client-id", "ip"]), entity_name=st.none() | NAMES
            ),
            min_size=1,
            max_size=2,
            unique_by=lambda each: each.entity_type,
        ),
        key=NAMES,
        value=st.floats(0, 1e6),
        remove=st.booleans(),
    ),
    st.builds(
        AccessControlEntryRecord,
        id=st.integers(1, 50).map(uuid),
        resource_type=st.integers(2, 7),
        resource_name=NAMES,
        pattern_type=st.integers(3, 4),
        principal=NAMES,
        host=NAMES,
        operation=st.integers(2, 12),
        permission_type=st.integers(2, 3),
    ),
    st.builds(
        UserScramCredentialRecord,
        name=NAMES,
        mechanism=st.integers(1, 2),
        salt=st.binary(max_size=8),
        stored_key=st.binary(max_size=8),
        server_key=st.binary(max_size=8),
        iterations=st.integers(4096, 9999),
    ),
    st.builds(
        DelegationTokenRecord,
        owner=NAMES,
        requester=NAMES,
        renewers=st.lists(NAMES, max_size=3),
        issue_timestamp=st.integers(0, 99),
        max_timestamp=st.integers(0, 99),
        expiration_timestamp=st.integers(0, 99),
        token_id=NAMES,
    ),
    st.builds(
        RegisterBrokerRecord,
        broker_id=st.integers(0, 9),
        incarnation_id=st.integers(1, 99).map(uuid),
        broker_epoch=st.integers(0, 99),
        end_points=st.lists(st.builds(BrokerEndpoint, name=NAMES, host=NAMES, port=st.integers(0, 65535)), max_size=2),
        features=st.lists(
            st.builds(BrokerFeature, name=NAMES, max_supported_version=st.integers(0, 9)),
            max_size=3,
            unique_by=lambda each: each.name,
        ),
        rack=st.none() | NAMES,
        fenced=st.booleans(),
        in_controlled_shutdown=st.booleans(),
        log_dirs=st.lists(st.integers(5, 50).map(uuid), max_size=2),
    ),
    st.builds(
        RegisterControllerRecord,
        controller_id=st.integers(0, 9),
        incarnation_id=st.integers(1, 99).map(uuid),
        end_points=st.lists(
            st.builds(ControllerEndpoint, name=NAMES, host=NAMES, port=st.integers(0, 65535)), max_size=2
        ),
    ),
    st.builds(
        PartitionRecord,
        topic_id=st.integers(0, TOPIC_COUNT - 1).map(lambda number: uuid(100 + number)),
        partition_id=st.integers(0, 3),
        replicas=IDS,
        isr=IDS,
        leader=st.integers(-1, 9),
        leader_epoch=st.integers(0, 9),
        partition_epoch=st.integers(0, 9),
        eligible_leader_replicas=st.none() | IDS,
        last_known_elr=st.none() | IDS,
        removing_replicas=IDS,
        adding_replicas=IDS,
    ),
    st.builds(NoOpRecord),
)


def with_four_topics() -> Image:
    image = EMPTY_IMAGE
    for number in range(TOPIC_COUNT):
        image = apply(image, TopicRecord(name=f"t{number}", topic_id=uuid(100 + number)))
        image = apply(
            image, PartitionRecord(topic_id=uuid(100 + number), partition_id=0, replicas=[1], isr=[1], leader=1)
        )
    return image


def replayed(records: list, level: int) -> list:
    """Return the records as they come back from the log."""
    return [decode_metadata_record(encode_metadata_record(each, record_version(each, level)))[0] for each in records]


@settings(max_examples=60, deadline=None)
@given(st.lists(FREE, max_size=30))
def test_an_image_comes_back_from_its_snapshot(records: list) -> None:
    image = with_four_topics()
    for record in records:
        image = apply(image, record)
    again = EMPTY_IMAGE
    for record in replayed(list(snapshot_records(image)), 30):
        again = apply(again, record)
    assert again == image


@settings(max_examples=60, deadline=None)
@given(st.lists(FREE, max_size=30))
def test_replay_of_the_log_equals_what_was_applied_live(records: list) -> None:
    live = replay = with_four_topics()
    for record in records:
        live = apply(live, record)
    for record in replayed(records, 30):
        replay = apply(replay, record)
    assert replay == live


def test_snapshots_are_the_same_whatever_order_made_the_image() -> None:
    records = [ConfigRecord(resource_type=2, resource_name=f"t{n}", name=k, value="1") for n in range(4) for k in "xyz"]
    one, other = with_four_topics(), with_four_topics()
    for record in records:
        one = apply(one, record)
    for record in reversed(records):
        other = apply(other, record)
    assert list(snapshot_records(one)) == list(snapshot_records(other))


def test_offset_and_epoch_follow_the_records() -> None:
    image = apply_all(EMPTY_IMAGE, [NoOpRecord(), NoOpRecord()], Offset(7), LeaderEpoch(3))
    assert (image.offset, image.epoch) == (8, 3)


def test_a_changed_leader_raises_both_epochs_and_a_changed_isr_only_the_partitions() -> None:
    image = with_four_topics()
    change = PartitionChangeRecord(topic_id=uuid(100), partition_id=0, isr=[1, 2])
    before = image.partition("t0", 0)
    assert before is not None
    after = apply(image, change).partition("t0", 0)
    assert after is not None
    assert (after.leader_epoch, after.partition_epoch) == (before.leader_epoch, before.partition_epoch + 1)
    moved = apply(image, PartitionChangeRecord(topic_id=uuid(100), partition_id=0, leader=2)).partition("t0", 0)
    assert moved is not None
    assert (moved.leader, moved.leader_epoch, moved.partition_epoch) == (
        2,
        before.leader_epoch + 1,
        before.partition_epoch + 1,
    )


def test_a_transaction_shows_at_its_end_and_leaves_nothing_when_aborted() -> None:
    begun = apply(with_four_topics(), BeginTransactionRecord(name="x"))
    inside = apply(begun, RemoveTopicRecord(topic_id=uuid(100)))
    assert inside.in_transaction
    assert apply(inside, AbortTransactionRecord()) == with_four_topics()
    ended = apply(inside, EndTransactionRecord())
    assert not ended.in_transaction and ended.topic("t0") is None


@pytest.mark.parametrize(
    "record",
    [
        TopicRecord(name="t0", topic_id=uuid(999)),
        PartitionRecord(topic_id=uuid(999)),
        RemoveTopicRecord(topic_id=uuid(999)),
        PartitionChangeRecord(topic_id=uuid(100), partition_id=9),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=1),
        RemoveAccessControlEntryRecord(id=uuid(1)),
        EndTransactionRecord(),
        AbortTransactionRecord(),
        ClearElrRecord(topic_name="missing"),
        object(),
    ],
)
def test_a_record_that_cannot_follow_is_corruption(record: object) -> None:
    with pytest.raises(CorruptionError):
        apply(with_four_topics(), record)


def test_record_versions_follow_the_metadata_version() -> None:
    assert [record_version(RegisterBrokerRecord(), level) for level in (6, 7, 8, 17, 30)] == [0, 1, 2, 3, 4]
    assert [record_version(PartitionRecord(), level) for level in (7, 17, 23, 30)] == [0, 1, 2, 2]
    cordoned = BrokerRegistrationChangeRecord(cordoned_log_dirs=[])
    assert record_version(cordoned, 30) == 3
    assert record_version(BrokerRegistrationChangeRecord(fenced=1), 30) == 0
    assert record_version(BrokerRegistrationChangeRecord(in_controlled_shutdown=1), 30) == 1


@pytest.mark.parametrize("level", [7, 8, 17, 23, 29, 30])
def test_every_record_can_be_written_at_every_level_that_is_supported(level: int) -> None:
    image = with_topics(cluster(1), topic("a", 2))
    gone = decide.heartbeat(
        image, NodeId(1), image.brokers[1].epoch, caught_up=True, want_fence=True, want_shut_down=False
    )
    older = [each for each in gone.records if level >= 23 or not isinstance(each, PartitionChangeRecord)]
    for record in [*snapshot_records(image), *older]:
        written, version = lowered(record, level)
        assert decode_metadata_record(encode_metadata_record(written, version))[1] == version


def test_directories_follow_their_replicas() -> None:
    record = PartitionRecord(
        topic_id=uuid(100), partition_id=0, replicas=[1, 2], isr=[1], leader=1, directories=[uuid(7), uuid(8)]
    )
    image = apply(with_four_topics(), record)
    image = apply(image, PartitionChangeRecord(topic_id=uuid(100), partition_id=0, replicas=[2, 3]))
    partition = image.partition("t0", 0)
    assert partition is not None
    assert partition.directory_of(NodeId(2)) == uuid(8)
    assert partition.directory_of(NodeId(3)) == uuid(1), "the directory is unassigned until its broker chooses"
