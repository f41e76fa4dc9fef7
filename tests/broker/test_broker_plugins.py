"""Rules of one's own in a broker: an authorizer and policies that come as entry points of an installed package."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.base import ConfigError, ErrorCode
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.askers import ADMIN, Asker
from tests.broker.node_client import run, running_node, start_node
from tests.broker.site_package import install

MODULE = """
from ottla.metadata import PolicyViolationError


class Gate:
    def configure(self, configs):
        self.open_to = configs["gate.open.to"]

    def authorize(self, principal, host, operation, resource, name):
        if name == "broken":
            raise RuntimeError("the gate is stuck")
        return principal == self.open_to and operation == "DESCRIBE" and resource == "TOPIC"


class Careful:
    def validate(self, proposed):
        if proposed.configs.get("retention.ms") == "-1":
            raise PolicyViolationError("nothing is kept for ever")
        if getattr(proposed, "name", "") == "broken":
            raise KeyError("a mistake")


class Useless:
    pass


class Choosy:
    def configure(self, configs):
        raise ValueError("no such thing")

    def validate(self, proposed):
        pass
"""
ENTRY_POINTS = """[ottla.authorizers]
gate = site_rules:Gate

[ottla.policies]
careful = site_rules:Careful
useless = site_rules:Useless
choosy = site_rules:Choosy
missing = site_rules:NotThere
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a package with these rules."""
    install(tmp_path / "site", monkeypatch, MODULE, ENTRY_POINTS)
    return tmp_path / "data"


GATE = ("authorizer.class.name=gate", "gate.open.to=User:a", f"super.users={ADMIN}")


@pytest.mark.parametrize("name", ["gate", "site_rules.Gate"])
def test_an_installed_authorizer_decides_and_one_that_fails_lets_nobody_in(installed: Path, name: str) -> None:
    async def test() -> None:
        async with running_node(installed, *GATE[1:], f"authorizer.class.name={name}") as client:
            topics = [CreatableTopic(name=each, num_partitions=1, replication_factor=1) for each in ("t", "broken")]
            made = await Asker(client.node, ADMIN).ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000))
            assert [each.error_code for each in made.topics] == [0, 0]

            async def seen(principal: str, topic: str) -> int:
                asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
                [found] = (await Asker(client.node, principal).ask(asked)).topics
                return int(found.error_code)

            assert await seen("User:a", "t") == 0
            assert await seen("User:b", "t") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert await seen("User:a", "broken") == ErrorCode.UNKNOWN_SERVER_ERROR
            refused = await Asker(client.node, "User:a").ask(CreateTopicsRequest(topics=topics[:1], timeout_ms=1))
            assert {each.error_code for each in refused.topics} == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}

    run(test)


def test_policies_are_asked_before_anything_changes(installed: Path) -> None:
    policies = "create.topic.policy.class.name=careful", "alter.config.policy.class.name=careful"
    forever = CreatableTopicConfig(name="retention.ms", value="-1")

    async def test() -> None:
        async with running_node(installed, *policies) as client:
            topics = [
                CreatableTopic(name="kept", num_partitions=1, replication_factor=1, configs=[forever]),
                CreatableTopic(name="broken", num_partitions=1, replication_factor=1),
                CreatableTopic(name="t", num_partitions=1, replication_factor=1),
            ]
            made = await client.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000))
            assert {each.name: each.error_code for each in made.topics} == {
                "kept": ErrorCode.POLICY_VIOLATION,
                "broken": ErrorCode.UNKNOWN_SERVER_ERROR,
                "t": 0,
            }
            assert [each.error_message for each in made.topics if each.name == "kept"] == ["nothing is kept for ever"]

            async def altered(value: str) -> int:
                config = AlterableConfig(name="retention.ms", config_operation=0, value=value)
                resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
                answer = await client.ask(IncrementalAlterConfigsRequest(resources=[resource]))
                return int(answer.responses[0].error_code)

            assert await altered("-1") == ErrorCode.POLICY_VIOLATION
            assert await altered("1000") == 0

    run(test)


@pytest.mark.parametrize(
    ("key", "name", "words"),
    [
        ("create.topic.policy.class.name", "none.such", "is none of the entry points ottla.policies"),
        ("create.topic.policy.class.name", "os.path", "is none of the entry points ottla.policies"),
        ("alter.config.policy.class.name", "useless", "has no method validate"),
        ("alter.config.policy.class.name", "missing", "cannot be made"),
        ("alter.config.policy.class.name", "choosy", "refuses its configuration: no such thing"),
        ("authorizer.class.name", "careful", "is none of the entry points ottla.authorizers"),
    ],
)
def test_rules_that_cannot_be_had_keep_a_node_from_starting(installed: Path, key: str, name: str, words: str) -> None:
    async def test() -> None:
        with pytest.raises(ConfigError, match=words) as refused:
            await start_node(installed, f"{key}={name}")
        assert (refused.value.key, refused.value.value) == (key, name)

    run(test)
