"""Quotas of somebody's own making (KIP-257): a class of an installed package says who shares a limit and what it is."""

from __future__ import annotations

import importlib
import logging
from pathlib import Path
from typing import Any

import pytest

from ottla.base import ConfigError, ErrorCode
from ottla.metadata import ClusterView
from ottla.security import CalledBack, ClientQuotas, QuotaKind
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.broker.node_client import NodeClient, batch, run, running_node, start_node
from tests.broker.site_package import install
from tests.broker.test_quotas import set_quota

MODULE = """
class Tenants:
    made = []

    def __init__(self):
        self.limits, self.heard, self.clusters, self.is_closed, self.fails = {}, [], [], False, False
        Tenants.made.append(self)

    def configure(self, configs):
        self.configs = configs

    def quota_metric_tags(self, quota_type, principal, client_id):
        if self.fails:
            raise KeyError("a mistake")
        return {"tenant": principal.removeprefix("User:")}

    def quota_limit(self, quota_type, metric_tags):
        return self.limits.get((quota_type, metric_tags["tenant"]))

    def update_quota(self, quota_type, entity, value):
        self.heard.append(("set", quota_type, entity, value))
        self.limits[quota_type, entity.get("user")] = value

    def remove_quota(self, quota_type, entity):
        self.heard.append(("gone", quota_type, entity))
        self.limits.pop((quota_type, entity.get("user")), None)

    def quota_reset_required(self, quota_type):
        return False

    def update_cluster_metadata(self, cluster):
        self.clusters.append(cluster)
        return False

    def close(self):
        self.is_closed = True


class Half:
    def quota_metric_tags(self, quota_type, principal, client_id):
        return {}
"""
ENTRY_POINTS = "[ottla.quotas]\ntenants = site_rules:Tenants\nhalf = site_rules:Half\n"
CALLBACK = "client.quota.callback.class=tenants"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a package with these classes."""
    install(tmp_path / "site", monkeypatch, MODULE, ENTRY_POINTS)
    return tmp_path / "data"


def the_callback() -> Any:
    return importlib.import_module("site_rules").Tenants.made[-1]


async def produced(client: NodeClient) -> int:
    answer = await client.ask(client.produce_request("t", batch(b"x" * 10_000)))
    assert answer.responses[0].partition_responses[0].error_code == 0
    return int(answer.throttle_time_ms)


def test_the_class_hears_of_quotas_and_says_what_holds(installed: Path) -> None:
    async def test() -> None:
        async with running_node(installed, CALLBACK) as client:
            callback = the_callback()
            assert callback.configs["client.quota.callback.class"] == "tenants"
            await client.create("t")
            assert await produced(client) == 0
            await set_quota(client, {"user": "ANONYMOUS"}, producer_byte_rate=500.0)
            await set_quota(client, {"ip": "10.0.0.1"}, connection_creation_rate=5.0)
            assert callback.heard == [("set", "PRODUCE", {"user": "ANONYMOUS"}, 500.0)]
            assert await produced(client) > 0
            await set_quota(client, {"user": "ANONYMOUS"}, producer_byte_rate=None)
            assert callback.heard[-1] == ("gone", "PRODUCE", {"user": "ANONYMOUS"})
            assert await produced(client) == 0
            cluster = callback.clusters[-1]
            assert cluster.brokers == (1,) and cluster.topics == ("t",) and cluster.leaders("t") == (1,)
            assert cluster.leaders("none") == ()
        assert callback.is_closed

    run(test)


def test_it_limits_what_is_made_too(installed: Path) -> None:
    async def test() -> None:
        async with running_node(installed, CALLBACK) as client:
            await set_quota(client, {"user": "ANONYMOUS"}, controller_mutation_rate=0.001)
            topics = [CreatableTopic(name=name, num_partitions=9, replication_factor=1) for name in ("a", "b")]
            answer = await client.ask(CreateTopicsRequest(topics=topics, timeout_ms=1000), 7)
            assert ErrorCode.THROTTLING_QUOTA_EXCEEDED in [each.error_code for each in answer.topics]

    run(test)


def test_a_class_that_fails_costs_no_records(installed: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with running_node(installed, CALLBACK) as client:
            await client.create("t")
            await set_quota(client, {"user": "ANONYMOUS"}, producer_byte_rate=500.0)
            the_callback().fails = True
            assert await produced(client) == 0

    with caplog.at_level(logging.ERROR):
        run(test)
    assert "client.quota.callback.class has failed and a request was not limited: KeyError: 'a mistake'" in caplog.text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("half", "has no method quota_limit"),
        ("org.example.Quotas", "is none of the entry points ottla.quotas"),
    ],
)
def test_a_class_that_cannot_be_had_keeps_a_node_from_starting(installed: Path, name: str, words: str) -> None:
    async def test() -> None:
        with pytest.raises(ConfigError, match=words):
            await start_node(installed, f"client.quota.callback.class={name}")

    run(test)


class Given:
    """A callback whose limits change by themselves."""

    def __init__(self, limit: object) -> None:
        self.value, self.has_changed, self.asked = limit, False, 0

    def quota_metric_tags(self, quota_type: str, principal: str, client_id: str) -> dict[str, str]:
        return {"user": principal, "zone": client_id}

    def quota_limit(self, quota_type: str, metric_tags: object) -> Any:
        self.asked += 1
        return self.value

    def update_quota(self, quota_type: str, entity: object, value: float) -> None: ...

    def remove_quota(self, quota_type: str, entity: object) -> None: ...

    def quota_reset_required(self, quota_type: str) -> bool:
        return self.has_changed

    def update_cluster_metadata(self, cluster: ClusterView) -> bool:
        return True


def test_a_limit_is_kept_until_the_class_says_that_it_has_changed() -> None:
    given, failed = Given(100.0), list[str]()
    called_back = CalledBack(given, lambda what, error: failed.append(str(error)))
    quotas = ClientQuotas(source=called_back)
    assert quotas.limits_clients
    assert quotas.charge(QuotaKind.PRODUCE, "ann", "a", 1000, 0) == 0
    given.value = None
    assert quotas.charge(QuotaKind.PRODUCE, "ann", "a", 1000, 0) == 10_000, "it has not said so"
    assert given.asked == 1
    assert [(each.user, each.client_id) for each in quotas.used(0)] == [('{"user": "User:ann", "zone": "a"}', "")]
    given.has_changed = True
    assert quotas.charge(QuotaKind.PRODUCE, "ann", "a", 1000, 0) == 0
    given.has_changed, given.value = False, 50.0
    called_back.cluster_changed(None)
    assert quotas.charge(QuotaKind.PRODUCE, "ann", "a", 0, 0) == 30_000
    assert failed == []


@pytest.mark.parametrize("limit", [-1.0, float("nan"), "many"])
def test_a_limit_that_is_none_is_a_failure(limit: object) -> None:
    failed = list[str]()
    quotas = ClientQuotas(source=CalledBack(Given(limit), lambda what, error: failed.append(what)))
    assert quotas.charge(QuotaKind.FETCH, "ann", "a", 10**9, 0) == 0
    assert failed == ["a request was not limited"]
