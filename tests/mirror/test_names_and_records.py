"""What topics are called on another cluster, and the bytes of MirrorMaker's own records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base import ConfigError, Offset, TopicPartition
from ottla.mirror.own_classes import policy_of
from ottla.mirror.policies import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
    is_cycle,
)
from ottla.mirror.records import Checkpoint, Heartbeat, OffsetSync, RecordError

PLACE = TopicPartition("orders", 3)
POLICY = DefaultReplicationPolicy()
IDENTITY = IdentityReplicationPolicy(source_alias="east")


def test_a_remote_topics_name_begins_with_its_clusters() -> None:
    assert POLICY.format_remote_topic("east", "orders") == "east.orders"
    assert (POLICY.topic_source("east.orders"), POLICY.upstream_topic("east.orders")) == ("east", "orders")
    assert (POLICY.topic_source("orders"), POLICY.upstream_topic("orders")) == (None, None)
    assert POLICY.topic_source("orders.") is None  # as Java splits: what is empty at the end is not there
    assert POLICY.original_topic("west.east.orders") == "orders"
    assert DefaultReplicationPolicy("__").format_remote_topic("east", "orders") == "east__orders"


def test_with_the_identity_policy_only_heartbeats_change_their_names() -> None:
    assert IDENTITY.format_remote_topic("east", "orders") == "orders"
    assert IDENTITY.format_remote_topic("east", "heartbeats") == "east.heartbeats"
    assert (IDENTITY.topic_source("orders"), IDENTITY.upstream_topic("orders")) == ("east", "orders")
    assert (IDENTITY.topic_source("east.heartbeats"), IDENTITY.topic_source("heartbeats")) == ("east", None)
    assert IDENTITY.original_topic("orders") == "orders" and IDENTITY.is_heartbeats_topic("west.heartbeats")


def test_internal_topics_have_kafkas_names_and_are_known() -> None:
    assert POLICY.offset_syncs_topic("west") == "mm2-offset-syncs.west.internal"
    assert POLICY.checkpoints_topic("east") == "east.checkpoints.internal"
    dashed = DefaultReplicationPolicy("-")
    assert dashed.offset_syncs_topic("west") == "mm2-offset-syncs-west-internal"
    assert DefaultReplicationPolicy("-", internal_with_separator=False).checkpoints_topic("east") == (
        "east.checkpoints.internal"
    )
    for name in ("__consumer_offsets", ".hidden", "mm2-configs.east.internal", "east.checkpoints.internal"):
        assert POLICY.is_internal_topic(name), name
    assert not POLICY.is_internal_topic("mm2-orders") and not POLICY.is_internal_topic("orders.internal")
    assert dashed.is_internal_topic("east-checkpoints-internal")


@pytest.mark.parametrize(
    ("policy", "topic", "is_one"),
    [
        (POLICY, "orders", False),
        (POLICY, "west.orders", True),
        (POLICY, "north.west.orders", True),
        (POLICY, "north.orders", False),
        (IDENTITY, "orders", False),
        (IdentityReplicationPolicy(source_alias="west"), "orders", True),
    ],
)
def test_what_comes_from_the_target_does_not_go_back_there(
    policy: ReplicationPolicy, topic: str, *, is_one: bool
) -> None:
    assert is_cycle(policy, topic, "west") is is_one


def test_a_policy_that_is_not_here_is_named() -> None:
    with pytest.raises(ConfigError, match="MyPolicy"):
        policy_of({"replication.policy.class": "com.example.MyPolicy"})


def test_records_are_byte_for_byte_kafkas() -> None:
    sync = OffsetSync(PLACE, Offset(5), Offset(258))
    assert sync.key() == b"\x00\x06orders\x00\x00\x00\x03"
    assert sync.value() == b"\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x01\x02"
    checkpoint = Checkpoint("g", PLACE, Offset(1), Offset(2), "é")
    assert checkpoint.key() == b"\x00\x01g\x00\x06orders\x00\x00\x00\x03"
    assert checkpoint.value() == b"\x00\x00" + (1).to_bytes(8, "big") + (2).to_bytes(8, "big") + b"\x00\x02\xc3\xa9"
    beat = Heartbeat("a", "bc", 1)
    assert (beat.key(), beat.value()) == (b"\x00\x01a\x00\x02bc", b"\x00\x00" + (1).to_bytes(8, "big"))
    for each in (sync, checkpoint, beat):
        assert type(each).of(each.key(), each.value()) == each


@given(st.sampled_from([OffsetSync, Checkpoint, Heartbeat]), st.none() | st.binary(), st.none() | st.binary())
def test_bytes_that_are_no_record_are_refused(kind: type[OffsetSync], key: bytes | None, value: bytes | None) -> None:
    try:
        kind.of(key, value)
    except RecordError as error:
        assert str(error)
