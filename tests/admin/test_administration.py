"""What administers a cluster says first what would change, then does it, and prints nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.admin import (
    AdminError,
    ConfigChange,
    ConfigEntity,
    NewPassword,
    QuotaChange,
    ResetKind,
    ResetTarget,
    TopicToCreate,
    add_partitions,
    alter_config,
    alter_quotas,
    create_topic,
    delete_groups,
    delete_offsets,
    delete_topics,
    describe_config,
    describe_features,
    describe_quotas,
    describe_topics,
    group_state,
    list_reassignments,
    partitions_in_scope,
    plan_config_change,
    plan_credential_change,
    plan_offset_deletion,
    plan_offset_reset,
    reset_offsets,
)
from ottla.base import ErrorCode, KafkaError, Offset, TopicPartition
from ottla.client import BlockingClient
from tests.server import running_server

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("admin")
    with running_server(folder) as server:
        yield server.bootstrap


@pytest.fixture
def client(broker: str, capfd: pytest.CaptureFixture[str]) -> Iterator[BlockingClient]:
    """A client of a broker with the topic `t`; whatever the test does through it, nothing is printed."""
    with BlockingClient(broker) as client:
        create_topic(client, TopicToCreate("t", partitions=2))
        yield client
        delete_topics(client, ["t"])
        delete_groups(client, ["g"])
    assert capfd.readouterr() == ("", "")


def test_a_reset_changes_nothing_before_it_is_carried_out(client: BlockingClient) -> None:
    client.commit_offsets("g", {T0: Offset(0)})
    plan = plan_offset_reset(client, "g", [T0, T1], ResetTarget(ResetKind.OFFSET, 7))
    assert plan.offsets == {T0: 0, T1: 0}, "there are no records yet"
    assert [(each.partition, each.wanted, each.offset) for each in plan.moved] == [(T0, 7, 0), (T1, 7, 0)]
    assert [*client.committed_offsets("g")] == [T0]
    reset_offsets(client, plan)
    assert [*client.committed_offsets("g")] == [T0, T1]


def test_a_shift_without_a_committed_offset_makes_no_sense_unless_it_begins_at_the_first_record(
    client: BlockingClient,
) -> None:
    target = ResetTarget(ResetKind.SHIFT, 1)
    with pytest.raises(AdminError, match="Cannot shift offset for partition t-0"):
        plan_offset_reset(client, "g", [T0], target)
    assert plan_offset_reset(client, "g", [T0], target, shift_from_earliest=True).offsets == {T0: 0}


def test_a_partition_without_young_records_goes_to_its_end_and_is_named(client: BlockingClient) -> None:
    plan = plan_offset_reset(client, "g", [T0], ResetTarget(ResetKind.TIME, 1))
    assert (plan.offsets, plan.without_records) == ({T0: 0}, (T0,))


def test_a_scope_names_what_is_not_there(client: BlockingClient) -> None:
    assert partitions_in_scope(client, {"t": None}) == [T0, T1]
    with pytest.raises(KafkaError, match='The partitions "t-5" do not exist'):
        partitions_in_scope(client, {"t": [0, 5]})


def test_offsets_are_forgotten_as_planned(client: BlockingClient) -> None:
    client.commit_offsets("g", {T0: Offset(0), T1: Offset(0)})
    plan = plan_offset_deletion(client, "g", {"t": [1], "gone": None})
    assert (plan.partitions, plan.unknown_topics) == ((T1,), ("gone",))
    result = delete_offsets(client, plan)
    assert (result.group, result.partitions) == (ErrorCode.NONE, {T1: ErrorCode.NONE})
    assert [*client.committed_offsets("g")] == [T0]


def test_what_becomes_of_each_group_is_said(client: BlockingClient) -> None:
    client.commit_offsets("g", {T0: Offset(0)})
    assert group_state(client, "g") == "Empty"
    assert delete_groups(client, ["g", "none"]) == {"g": ErrorCode.NONE, "none": ErrorCode.GROUP_ID_NOT_FOUND}
    assert group_state(client, "g") == "Dead"


def test_a_topic_is_checked_made_extended_described_and_deleted(client: BlockingClient) -> None:
    wanted = TopicToCreate("u", partitions=1, configs={"retention.ms": "1000"})
    create_topic(client, wanted, validate_only=True)
    assert "u" not in client.metadata().topics
    create_topic(client, wanted)
    add_partitions(client, ["u"], count=3)
    (found,) = describe_topics(client, ["u"])
    assert (len(found.partitions), found.replication_factor, found.configs["retention.ms"]) == (3, 1, "1000")
    with pytest.raises(KafkaError) as raised:
        create_topic(client, wanted)
    assert raised.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    done = delete_topics(client, ["u", "gone"])
    assert done["u"] is None
    assert done["gone"] is not None and done["gone"].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def own(client: BlockingClient, entity: ConfigEntity) -> dict[str, str | None]:
    return {each.name: each.value for each in describe_config(client, entity) if each.is_set_for(entity)}


def test_a_change_of_configuration_is_checked_and_then_made(client: BlockingClient) -> None:
    topic = ConfigEntity("topics", "t")
    change = plan_config_change(client, topic, {"retention.ms": "5"}, [])
    alter_config(client, change, validate_only=True)
    assert own(client, topic) == {}
    alter_config(client, change)
    assert own(client, topic) == {"retention.ms": "5"}
    alter_config(client, ConfigChange(topic, deleted=("retention.ms",)))
    assert own(client, topic) == {}
    with pytest.raises(AdminError, match="Invalid broker logger"):
        plan_config_change(client, ConfigEntity("broker-loggers", "1"), {"no.such.logger": "DEBUG"}, [])


def test_quotas_are_set_and_dropped(client: BlockingClient) -> None:
    entity = {"user": "alice"}
    alter_quotas(client, QuotaChange(entity, {"producer_byte_rate": 1024.0}))
    (found,) = describe_quotas(client, {"user": None})
    assert (found.entity, found.values) == (entity, {"producer_byte_rate": 1024.0})
    alter_quotas(client, QuotaChange(entity, deleted=("producer_byte_rate",)))
    assert describe_quotas(client, {"user": None}) == []


def test_a_planned_credential_holds_no_password_and_bounds_its_iterations() -> None:
    change = plan_credential_change("alice", {"SCRAM-SHA-256": NewPassword("secret")}, [])
    assert change.added["SCRAM-SHA-256"].iterations == 4096 and "secret" not in repr(change)
    for iterations, text in ((4095, "less than the minimum"), (16385, "more than the maximum")):
        with pytest.raises(AdminError, match=text):
            plan_credential_change("alice", {"SCRAM-SHA-256": NewPassword("secret", iterations)}, [])


def test_features_and_reassignments_are_values(client: BlockingClient) -> None:
    levels = {each.name: each for each in describe_features(client)}
    assert levels["metadata.version"].lowest <= levels["metadata.version"].finalized
    assert list_reassignments(client) == {}
