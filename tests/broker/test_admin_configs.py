"""Configuration through the wire: DescribeConfigs, IncrementalAlterConfigs, AlterConfigs, ListConfigResources."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from ottla.base import ErrorCode
from ottla.config import ConfigSource
from ottla.metadata import ResourceType
from ottla.wire.messages import alter_configs as legacy
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.broker.node_client import NodeClient, run, running_node

SET, DELETE = 0, 1


async def alter(client: NodeClient, kind: int, name: str, *operations: tuple[str, int, str | None]) -> tuple[int, str]:
    configs = [AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in operations]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    (result,) = (await client.ask(IncrementalAlterConfigsRequest(resources=[resource]))).responses
    return result.error_code, result.error_message


async def describe(
    client: NodeClient, kind: int, name: str, *keys: str, version: int = 4, documentation: bool = False
) -> Any:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) if keys else None
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=documentation and version >= 3
    )
    (result,) = (await client.ask(request, version)).results
    return result


@pytest.mark.parametrize("version", range(1, 5))
def test_a_topics_values_come_with_where_they_are_from(tmp_path: Path, version: int) -> None:
    async def test() -> None:
        async with running_node(tmp_path, "log.segment.bytes=2000000") as client:
            await client.create("a", retention_ms="77")
            result = await describe(
                client, ResourceType.TOPIC, "a", "retention.ms", "segment.bytes", "cleanup.policy", version=version
            )
            found = {each.name: (each.value, each.config_source) for each in result.configs}
            assert found == {
                "retention.ms": ("77", ConfigSource.DYNAMIC_TOPIC_CONFIG),
                "segment.bytes": ("2000000", ConfigSource.STATIC_BROKER_CONFIG),
                "cleanup.policy": ("delete", ConfigSource.DEFAULT_CONFIG),
            }
            synonyms = {each.name: [(s.name, s.value, s.source) for s in each.synonyms] for each in result.configs}
            assert synonyms["segment.bytes"] == [
                ("log.segment.bytes", "2000000", ConfigSource.STATIC_BROKER_CONFIG),
                ("log.segment.bytes", "1073741824", ConfigSource.DEFAULT_CONFIG),
            ]

    run(test)


def test_documentation_is_told_only_when_asked_for(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("a")
            with_text = await describe(client, ResourceType.TOPIC, "a", "retention.ms", documentation=True)
            without = await describe(client, ResourceType.TOPIC, "a", "retention.ms")
            assert with_text.configs[0].documentation and without.configs[0].documentation is None

    run(test)


def test_secrets_are_told_to_nobody_and_fixed_keys_are_marked(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, "ssl.key.password=hush") as client:
            node_id = str(client.node.config.node_id)
            result = await describe(client, ResourceType.BROKER, node_id, "ssl.key.password", "node.id")
            entries = {each.name: each for each in result.configs}
            secret = entries["ssl.key.password"]
            assert (secret.value, secret.is_sensitive) == (None, True)
            assert all(each.value is None for each in secret.synonyms)
            assert entries["node.id"].read_only and not secret.read_only

    run(test)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (ResourceType.TOPIC, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ResourceType.BROKER, "99", ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER, "x", ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER_LOGGER, "", ErrorCode.INVALID_REQUEST),
        (ResourceType.GROUP, "", ErrorCode.INVALID_REQUEST),
        (ResourceType.CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST),
        (77, "a", ErrorCode.INVALID_REQUEST),
    ],
)
def test_resources_that_cannot_be_described(tmp_path: Path, kind: int, name: str, code: ErrorCode) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            result = await describe(client, kind, name)
            assert (result.error_code, list(result.configs)) == (code, [])

    run(test)


def test_a_broker_default_changes_every_topic_that_sets_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("a")
            await client.create("b", retention_ms="5")
            assert await alter(client, ResourceType.BROKER, "", ("log.retention.ms", SET, "777")) == (0, None)
            (a,) = (await describe(client, ResourceType.TOPIC, "a", "retention.ms")).configs
            (b,) = (await describe(client, ResourceType.TOPIC, "b", "retention.ms")).configs
            assert (a.value, a.config_source) == ("777", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
            assert b.value == "5"
            result = await describe(client, ResourceType.BROKER, "", "log.retention.ms")
            assert [each.value for each in result.configs] == ["777"]

    run(test)


def test_groups_and_client_metrics_keep_their_configuration(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            assert await alter(client, ResourceType.GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")) == (
                0,
                None,
            )
            (timeout,) = (await describe(client, ResourceType.GROUP, "g", "consumer.session.timeout.ms")).configs
            assert (timeout.value, timeout.config_source) == ("50000", ConfigSource.DYNAMIC_GROUP_CONFIG)
            code, message = await alter(client, ResourceType.GROUP, "g", ("consumer.session.timeout.ms", SET, "5"))
            assert (code, message) == (
                ErrorCode.INVALID_CONFIG,
                "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
            )
            assert await alter(client, ResourceType.CLIENT_METRICS, "m", ("interval.ms", SET, "1000")) == (0, None)
            result = await describe(client, ResourceType.CLIENT_METRICS, "m")
            assert {each.name: each.value for each in result.configs} == {
                "interval.ms": "1000",
                "match": "",
                "metrics": "",
            }

    run(test)


def test_a_loggers_level_changes_here_and_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        logger = logging.getLogger("ottla.test.levels")
        async with running_node(tmp_path) as client:
            node_id = str(client.node.config.node_id)
            assert await alter(client, ResourceType.BROKER_LOGGER, node_id, (logger.name, SET, "ERROR")) == (0, None)
            assert logger.level == logging.ERROR
            (entry,) = (await describe(client, ResourceType.BROKER_LOGGER, node_id, logger.name)).configs
            assert entry.value == "ERROR"
            assert await alter(client, ResourceType.BROKER_LOGGER, node_id, (logger.name, DELETE, None)) == (0, None)
            assert logger.level == logging.NOTSET
            code, _ = await alter(client, ResourceType.BROKER_LOGGER, node_id, (logger.name, SET, "LOUD"))
            assert code == ErrorCode.INVALID_CONFIG
            code, _ = await alter(client, ResourceType.BROKER_LOGGER, node_id, ("no.such.logger", SET, "INFO"))
            assert code == ErrorCode.INVALID_CONFIG

    run(test)


@pytest.mark.parametrize("version", range(3))
def test_the_legacy_request_replaces_what_was_set(tmp_path: Path, version: int) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("a", retention_ms="5")
            resource = legacy.AlterConfigsResource(
                resource_type=ResourceType.TOPIC,
                resource_name="a",
                configs=[legacy.AlterableConfig(name="segment.ms", value="9")],
            )
            answer = await client.ask(legacy.AlterConfigsRequest(resources=[resource]), version)
            assert answer.responses[0].error_code == 0
            result = await describe(client, ResourceType.TOPIC, "a", "retention.ms", "segment.ms")
            assert {each.name: each.value for each in result.configs} == {
                "retention.ms": "604800000",
                "segment.ms": "9",
            }

    run(test)


def test_resources_are_listed_by_kind(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await client.create("a")
            await alter(client, ResourceType.GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
            await alter(client, ResourceType.CLIENT_METRICS, "m", ("interval.ms", SET, "1000"))
            node_id = str(client.node.config.node_id)
            answer = await client.ask(ListConfigResourcesRequest(resource_types=[]), 1)
            found = {(each.resource_type, each.resource_name) for each in answer.config_resources}
            assert found == {(2, "a"), (4, node_id), (8, node_id), (16, "m"), (32, "g")}
            answer = await client.ask(ListConfigResourcesRequest(), 0)
            assert [each.resource_name for each in answer.config_resources] == ["m"]
            answer = await client.ask(ListConfigResourcesRequest(resource_types=[77]), 1)
            assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION

    run(test)
