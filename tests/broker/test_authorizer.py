"""A node with StandardAuthorizer: who is let through, from when on, and that it follows the cluster's entries."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.base import ConfigError, ErrorCode
from ottla.broker import SystemClock
from ottla.broker.requests.authorizers import authorizer_of
from ottla.config import BrokerConfig
from ottla.security import Operation, Resource
from ottla.wire.messages.create_acls import CreateAclsRequest
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.describe_acls import DescribeAclsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.advertised import with_controller
from tests.broker.askers import ADMIN, AUTHORIZER, Asker, allowed, grant
from tests.broker.node_client import NodeClient, run, running_node, start_node
from tests.ports import free_port

ANYTHING: Mapping[str, Any] = {
    **dict.fromkeys(("resource_type_filter", "pattern_type_filter", "operation", "permission_type"), 1),
    **dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter")),
}
"""A filter that finds every entry."""
EVERYTHING = DescribeAclsRequest(**ANYTHING)


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
