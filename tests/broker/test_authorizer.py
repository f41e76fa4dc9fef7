"""A node with StandardAuthorizer: who is let through, from when on, and that it follows the cluster's entries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.base import ConfigError, ErrorCode
from ottla.broker import SystemClock
from ottla.broker.requests.authorizers import authorizer_of
from ottla.broker.requests.principals import address_bytes, principal_bytes
from ottla.config import BrokerConfig
from ottla.security import Operation, Resource
from ottla.wire import ApiKey, encode_request, read_response
from ottla.wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.describe_acls import DescribeAclsRequest
from ottla.wire.messages.envelope import EnvelopeRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.advertised import with_controller
from tests.broker.askers import ADMIN, AUTHORIZER, Asker, allowed, grant
from tests.broker.node_client import NodeClient, batch, parts, run, running_node, start_node
from tests.ports import free_port
from tests.waiting import until_async

ANYTHING: Mapping[str, Any] = {
    **dict.fromkeys(("resource_type_filter", "pattern_type_filter", "operation", "permission_type"), 1),
    **dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter")),
}
"""A filter that finds every entry."""
EVERYTHING = DescribeAclsRequest(**ANYTHING)
COUNTED = "more decisions were not logged"


def test_without_entries_only_super_users_may_do_anything(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *AUTHORIZER) as client:
            refused = await client.ask(EVERYTHING)
            assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert refused.error_message == "Cluster authorization failed."
            assert (await Asker(client.node, ADMIN).ask(EVERYTHING)).error_code == 0
            creation = CreateAclsRequest(creations=[allowed("User:a", Operation.ALL, Resource.TOPIC, "t")])
            [result] = (await client.ask(creation)).results
            assert result.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    run(test)


def test_an_entry_counts_when_it_is_answered_and_stops_to_count_when_its_removal_is(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *AUTHORIZER) as client:
            described = await Asker(client.node, "User:a").ask(EVERYTHING)
            assert described.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            await grant(client.node, allowed("User:a", Operation.ALTER, Resource.CLUSTER, "kafka-cluster"))
            described = await Asker(client.node, "User:a").ask(EVERYTHING)
            assert described.error_code == 0 and len(described.resources) == 1
            removal = DeleteAclsRequest(filters=[DeleteAclsFilter(**ANYTHING)])
            [result] = (await Asker(client.node, "User:a").ask(removal)).filter_results
            assert [each.principal for each in result.matching_acls] == ["User:a"]
            described = await Asker(client.node, "User:a").ask(EVERYTHING)
            assert described.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    run(test)


def test_entries_are_there_again_after_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *AUTHORIZER) as client:
            await grant(client.node, allowed("User:a", Operation.DESCRIBE, Resource.CLUSTER, "kafka-cluster"))
        async with running_node(tmp_path, *AUTHORIZER) as client:
            assert (await Asker(client.node, "User:a").ask(EVERYTHING)).error_code == 0
            assert (await Asker(client.node, "User:b").ask(EVERYTHING)).error_code != 0

    run(test)


def test_an_entry_may_be_for_one_address_only(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *AUTHORIZER) as client:
            entry = allowed(
                "User:a", Operation.DESCRIBE, Resource.CLUSTER, "kafka-cluster", host="2001:db8:0:0:0:0:0:1"
            )
            await grant(client.node, entry)
            assert (await Asker(client.node, "User:a", "2001:db8::1").ask(EVERYTHING)).error_code == 0
            assert (await Asker(client.node, "User:a", "192.0.2.9").ask(EVERYTHING)).error_code != 0

    run(test)


def test_with_allow_everyone_what_no_entry_touches_is_open(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *AUTHORIZER, "allow.everyone.if.no.acl.found=true") as client:
            await client.create("free")
            await client.create("kept")
            await grant(client.node, allowed("User:a", Operation.READ, Resource.TOPIC, "kept"))
            topics = [MetadataRequestTopic(name=each) for each in ("free", "kept")]
            found = (await client.ask(MetadataRequest(topics=topics))).topics
            assert {each.name: each.error_code for each in found} == {
                "free": 0,
                "kept": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            }

    run(test)


def test_a_controllers_listener_asks_too(tmp_path: Path) -> None:
    async def test() -> None:
        port = free_port()
        settings = (*with_controller(port), f"listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}")
        async with running_node(tmp_path, *AUTHORIZER, *settings) as client:
            direct = NodeClient(client.node, *await asyncio.open_connection("127.0.0.1", port))
            assert (await direct.ask(EVERYTHING)).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            direct.close()

    run(test)


def config(*overrides: str) -> BrokerConfig:
    return BrokerConfig.load(overrides=overrides, environment={})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("authorizer.class.name", "kafka.security.authorizer.AclAuthorizer"),
        ("authorizer.class.name", "com.example.Mine"),
        ("super.users", "User:a;b"),
    ],
)
def test_an_authorizer_that_cannot_be_had_is_an_error_that_names_its_key(tmp_path: Path, key: str, value: str) -> None:
    authorizer = () if key == "authorizer.class.name" else AUTHORIZER[:1]
    with pytest.raises(ConfigError, match=key):
        authorizer_of(config(*authorizer, f"{key}={value}"), SystemClock())

    async def test() -> None:
        with pytest.raises(ConfigError, match=key):
            await start_node(tmp_path, *authorizer, f"{key}={value}")

    run(test)


@pytest.mark.parametrize(
    "override", ["allow.everyone.if.no.acl.found=yes", "early.start.listeners=NONE_SUCH", "early.start.listeners=A,B"]
)
def test_what_an_authorizer_cannot_be_told_is_no_configuration(override: str) -> None:
    with pytest.raises(ConfigError, match=override.partition("=")[0]):
        config(override)


def test_controllers_listeners_are_open_early_unless_others_are_named() -> None:
    assert config(*with_controller(9093), "listeners=PLAINTEXT://:9092,CONTROLLER://:9093").early_start_listeners == {
        "CONTROLLER"
    }
    named = config("listeners=PLAINTEXT://:9092", "early.start.listeners= plaintext ")
    assert named.early_start_listeners == {"PLAINTEXT"}
    assert config("early.start.listeners=").early_start_listeners == frozenset()


def test_the_authorizers_own_keys_are_known_and_in_vain_without_it() -> None:
    assert config(*AUTHORIZER, "allow.everyone.if.no.acl.found=false").warnings == ()
    [warning] = config("super.users=User:a").warnings
    assert "super.users" in warning and "authorizer.class.name is not set" in warning
    told = BrokerConfig.load(environment={"KAFKA_SUPER_USERS": "User:a", "KAFKA_AUTHORIZER_CLASS_NAME": "x"})
    assert told.authorization.super_users == "User:a" and told.warnings == ()


def test_a_topic_is_made_by_itself_with_the_rights_of_who_asks_for_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *AUTHORIZER) as client:
            await grant(
                client.node,
                allowed("User:a", Operation.DESCRIBE, Resource.TOPIC, "*"),
                allowed("User:a", Operation.CREATE, Resource.TOPIC, "mine-", is_prefix=True),
            )
            asker = Asker(client.node, "User:a")
            request = MetadataRequest(topics=[MetadataRequestTopic(name=each) for each in ("mine-1", "others")])
            found = {each.name: each.error_code for each in (await asker.ask(request)).topics}
            assert found == {
                "mine-1": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "others": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            }
            image = parts(client.node).quorum
            await until_async(lambda: image.image.topic("mine-1"), "the topic")
            assert image.image.topic("others") is None

    run(test)


def test_a_transactional_batch_without_a_transactional_id_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("t", partitions=2)
            plain, marked = (
                batch(b"x"),
                batch(b"x", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True),
            )
            data = [PartitionProduceData(index=at, records=each) for at, each in enumerate((plain, marked))]
            topics = [TopicProduceData(name="t", partition_data=data)]
            request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics)
            answer = await client.ask(request, 12)
            codes = {each.error_code for each in answer.responses[0].partition_responses}
            assert codes == {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}

    run(test)


def test_who_may_write_to_some_topic_may_do_so_idempotently(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *AUTHORIZER) as client:
            await grant(
                client.node,
                allowed("User:a", Operation.WRITE, Resource.TOPIC, "not-there-yet"),
                allowed("User:b", Operation.READ, Resource.TOPIC, "*"),
            )
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
            assert (await Asker(client.node, "User:a").ask(request)).error_code == 0
            refused = await Asker(client.node, "User:b").ask(request)
            assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    run(test)


def envelope_of(request: Any, version: int, principal: str) -> EnvelopeRequest:
    return EnvelopeRequest(
        request_data=encode_request(request, version, 7, "app")[4:],
        request_principal=principal_bytes(principal),
        client_host_address=address_bytes("192.0.2.7"),
    )


def test_an_envelope_needs_a_brokers_right_and_its_content_that_of_whom_it_names(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *AUTHORIZER) as client:
            await grant(
                client.node,
                allowed("User:broker", Operation.CLUSTER_ACTION, Resource.CLUSTER, "kafka-cluster"),
                allowed("User:a", Operation.ALTER, Resource.CLUSTER, "kafka-cluster", host="192.0.2.7"),
            )
            creation = CreateAclsRequest(creations=[allowed("User:x", Operation.READ, Resource.TOPIC, "t")])

            async def told(sender: str, principal: str) -> tuple[int, int | None]:
                asker = Asker(client.node, sender, is_controller=True)
                answer = await asker.ask(envelope_of(creation, 3, principal))
                if answer.response_data is None:
                    return answer.error_code, None
                _, inner = read_response(CreateAclsResponse, answer.response_data, ApiKey.CREATE_ACLS, 3)
                return answer.error_code, inner.results[0].error_code

            assert await told("User:broker", "User:a") == (0, 0)
            assert await told("User:broker", "User:b") == (0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            assert await told("User:a", "User:a") == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
            assert await told("User:a", ADMIN) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)

    run(test)


def test_a_replica_without_a_brokers_right_gets_nothing_and_says_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, *AUTHORIZER) as client:
            admin = Asker(client.node, ADMIN)
            topics = [CreatableTopic(name="t", num_partitions=1, replication_factor=1)]
            created = (await admin.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000))).topics[0]
            await grant(client.node, allowed("User:a", Operation.ALL, Resource.TOPIC, "t"))
            wanted = FetchTopic(topic_id=created.topic_id, partitions=[FetchPartition(partition=0, fetch_offset=0)])
            state = ReplicaState(replica_id=1, replica_epoch=-1)
            answer = await Asker(client.node, "User:a").ask(FetchRequest(replica_state=state, topics=[wanted]))
            [partition] = answer.responses[0].partitions
            assert (answer.error_code, partition.error_code) == (0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            assert not partition.records

    run(test)


def test_what_is_denied_is_logged_in_kafkas_words_and_a_flood_of_it_is_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kafka.authorizer.logger")

    async def test() -> None:
        async with running_node(tmp_path, *AUTHORIZER) as client:
            asker = Asker(client.node, "User:a\n", "192.0.2.7")
            request = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
            await asker.ask(request)
            [line] = audited(caplog)
            assert line == (
                "Principal = User:a\\n is Denied operation = DESCRIBE from host = 192.0.2.7 on resource = "
                "Topic:LITERAL:t for request = Metadata with resourceRefCount = 1 based on rule DefaultDeny"
            )
            await asker.ask(MetadataRequest(topics=None))
            assert audited(caplog) == [line]
            for _ in range(1000):
                await asker.ask(EVERYTHING)
            await until_async(lambda: any(COUNTED in each for each in audited(caplog)), "what was left out")

    run(test)


def test_a_line_says_how_often_a_request_names_the_topic_and_says_it_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kafka.authorizer.logger")

    async def test() -> None:
        async with running_node(tmp_path, *AUTHORIZER) as client:
            topics = [CreatableTopic(name="t", num_partitions=3, replication_factor=1)]
            made = await Asker(client.node, ADMIN).ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000))
            topic_id, asker = made.topics[0].topic_id, Asker(client.node, "User:a")
            fetched = [FetchPartition(partition=at, fetch_offset=0) for at in range(3)]
            await asker.ask(FetchRequest(topics=[FetchTopic(topic_id=topic_id, partitions=fetched)]))
            written = [PartitionProduceData(index=at, records=batch(b"v")) for at in range(2)]
            sent = TopicProduceData(topic_id=topic_id, partition_data=written)
            await asker.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[sent]))
            told = [each.partition(" for request = ")[2].partition(" based")[0] for each in audited(caplog)]
            assert told == ["Fetch with resourceRefCount = 3", "Produce with resourceRefCount = 2"]

    run(test)


def audited(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "kafka.authorizer.logger"]
