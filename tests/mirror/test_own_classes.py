"""Policies, filters and admins that are not Kafka's: found on the plugin path, asked as Kafka's are, or refused in words."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.admin import ConfigEntity, describe_config
from ottla.base import ConfigError, Offset, TopicPartition
from ottla.client import BlockingClient
from ottla.mirror import (
    ConfigPropertyFilter,
    DefaultReplicationPolicy,
    ForwardingAdmin,
    GroupFilter,
    ReplicationPolicy,
    TopicFilter,
)
from ottla.mirror.own_classes import admin_class, group_filter, policy_of, property_filter, topic_filter
from ottla.mirror.policies import HOPS_MAX, is_cycle
from ottla.mirror.source import MirrorSourceConnector
from ottla.security import Acl, AclFilter, Operation, PatternType, PermissionType, Resource
from tests.connect.whole import running_connect
from tests.mirror.test_mirroring import CONVERTERS, WITH_ACLS, create, flow, make, read, values, write
from tests.server import Server, running_server
from tests.waiting import until

OWN = '''
from pathlib import Path

from ottla.mirror import (
    ConfigPropertyFilter, DefaultTopicFilter, ForwardingAdmin, GroupFilter, ReplicationPolicy, TopicFilter
)


class Suffixes(ReplicationPolicy):
    """`orders` of `east` is `orders-from-east`, or what stands between the two in a setting of its own."""

    def configure(self, props):
        self._between = props.get("replication.policy.between", "-from-")

    def format_remote_topic(self, source_cluster_alias, topic):
        return f"{topic}{self._between}{source_cluster_alias}"

    def topic_source(self, topic):
        return topic.rpartition(self._between)[2] if self._between in topic else None

    def upstream_topic(self, topic):
        return topic.rpartition(self._between)[0] if self._between in topic else None


class OfTenant(TopicFilter):
    def configure(self, props):
        self._tenant = props["tenant"]

    def should_replicate_topic(self, topic):
        return topic.startswith(self._tenant)


class Billing(GroupFilter):
    def should_replicate_group(self, group):
        return group == "billing"


class OnlyRetention(ConfigPropertyFilter):
    def should_replicate_config_property(self, prop):
        return prop.startswith("retention")


class Told(ForwardingAdmin):
    """Writes down what it is asked for, and does it under the rules of a platform: two partitions at least."""

    def _tell(self, text):
        with Path(self.configs["told.to"]).open("a") as file:
            file.write(text + "\\n")

    def create_topics(self, topics):
        self._tell("topics " + " ".join(each.name for each in topics))
        return super().create_topics(topics)

    def create_partitions(self, topic, total_count):
        self._tell(f"partitions {topic} {total_count}")
        super().create_partitions(topic, total_count)

    def incremental_alter_configs(self, change):
        self._tell(f"configs {change.entity.name} {sorted(change.added)}")
        super().incremental_alter_configs(change)

    def create_acls(self, acls):
        self._tell("acls " + " ".join(each.resource_name for each in acls))
        super().create_acls(acls)

    def alter_consumer_group_offsets(self, group, offsets):
        self._tell(f"offsets {group}")
        super().alter_consumer_group_offsets(group, offsets)


class Platform(Told):
    """Has entries of access made elsewhere, which takes it two tries, and makes none itself."""

    def create_acls(self, acls):
        self._tell("acls " + " ".join(f"{each.resource_name} {each.principal} {each.operation.name}" for each in acls))
        if Path(self.configs["told.to"]).read_text().count("acls ") == 1:
            raise RuntimeError("the platform is away")


class Nothing(TopicFilter):
    pass


class Failing(TopicFilter):
    def configure(self, props):
        raise KeyError("tenant")

    def should_replicate_topic(self, topic):
        return True


class NoFilter:
    pass
'''


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Path]:
    """Yield a plugin path with a package that has a module of such classes, and one that cannot be imported."""
    path = tmp_path / "plugins"
    folder = path / "acme_mirroring"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "rules.py").write_text(OWN)
    (folder / "broken.py").write_text("import no_such_module_of_acme\n")
    yield path
    for name in [each for each in sys.modules if each.partition(".")[0] == "acme_mirroring"]:
        del sys.modules[name]


@pytest.fixture
def found(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Python find the package, as on PYTHONPATH."""
    monkeypatch.syspath_prepend(str(package))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    folders = [tmp_path_factory.mktemp(each) for each in ("east", "west")]
    with running_server(folders[0]) as east, running_server(folders[1]) as west:
        yield east, west


def test_topics_and_groups_follow_by_classes_of_ones_own_on_the_plugin_path(
    servers: tuple[Server, Server], package: Path, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    rules = "acme_mirroring.rules"
    config = flow(
        servers,
        **{
            "replication.policy.class": f"{rules}:Suffixes",
            "topic.filter.class": f"{rules}.OfTenant",
            "group.filter.class": f"{rules}.Billing",
            "config.property.filter.class": f"{rules}:OnlyRetention",
            "forwarding.admin.class": f"{rules}.Told",
            "target.admin.told.to": str(told),
            "source.admin.told.to": str(tmp_path / "told-of-source"),
            "tenant": "acme",
            "sync.topic.acls.enabled": "false",
        },
    )
    with BlockingClient(servers[0].bootstrap) as east, BlockingClient(servers[1].bootstrap) as west:
        make(east, "acme-orders", 1, retention_ms="123456789", max_message_bytes="2000000")
        make(east, "other-orders", 1)
        write(east, "acme-orders", *(str(number) for number in range(20)))
        place, remote = TopicPartition("acme-orders", 0), TopicPartition("acme-orders-from-east", 0)
        for group in ("billing", "other"):
            east.commit_offsets(group, {place: Offset(20)})
        with running_connect(tmp_path, servers[1].bootstrap, **CONVERTERS, **{"plugin.path": str(package)}) as worker:
            for kind in ("Source", "Checkpoint", "Heartbeat"):
                create(worker, kind, config)
            until(lambda: len(values(west, remote.topic)) == 20, lambda: values(west, remote.topic))
            until(lambda: west.committed_offsets("billing").get(remote), "the group's offsets")
            assert west.committed_offsets("billing")[remote].offset == 20
            assert not west.committed_offsets("other")
            entity = ConfigEntity("topics", remote.topic)
            own = {each.name for each in describe_config(west, entity) if each.is_set_for(entity)}
            assert own == {"retention.ms"}
            until(lambda: read(west, "heartbeats"), "heartbeats")
            names = set(west.metadata().topics)
            assert not [each for each in names if "other" in each] and "east.checkpoints.internal" in names
    lines = told.read_text().splitlines()
    assert "topics acme-orders-from-east" in lines and "topics heartbeats" in lines and "offsets billing" in lines
    assert "topics mm2-offset-syncs.west.internal" in (tmp_path / "told-of-source").read_text()


def test_partitions_and_configurations_that_come_later_go_through_the_admin(
    servers: tuple[Server, Server], package: Path, tmp_path: Path
) -> None:
    from ottla.admin import ConfigChange, add_partitions, alter_config

    told = tmp_path / "told"
    own = {"forwarding.admin.class": "acme_mirroring.rules.Told", "target.cluster.told.to": str(told)}
    own |= {"source.cluster.told.to": str(tmp_path / "of-source"), "sync.topic.acls.enabled": "false"}
    with BlockingClient(servers[0].bootstrap) as east, BlockingClient(servers[1].bootstrap) as west:
        make(east, "growing", 1)
        with running_connect(tmp_path, servers[1].bootstrap, **CONVERTERS, **{"plugin.path": str(package)}) as worker:
            create(worker, "Source", flow(servers, topics="growing", **own))
            until(lambda: "east.growing" in west.metadata().topics, "the topic")
            add_partitions(east, ["growing"], count=3)
            alter_config(east, ConfigChange(ConfigEntity("topics", "growing"), {"retention.ms": "5000000"}))
            until(lambda: len(west.metadata().topics["east.growing"].partitions) == 3, "partitions")
            until(lambda: "configs east.growing ['retention.ms']" in told.read_text(), told.read_text)
            write(east, "growing", "late", partition=2)
            until(lambda: values(west, "east.growing") == Counter(["late"]), "a record of a new partition")
    assert "partitions east.growing 3" in told.read_text().splitlines()


def test_entries_of_access_go_through_the_admin_alone_and_again_where_it_failed(package: Path, tmp_path: Path) -> None:
    from ottla.admin import create_acls, describe_acls

    told = tmp_path / "told"
    own = {"forwarding.admin.class": "acme_mirroring.rules:Platform", "target.cluster.told.to": str(told)}
    own |= {"source.cluster.told.to": str(tmp_path / "of-source"), "sync.topic.acls.enabled": "true"}
    folders = [tmp_path / each for each in ("east", "west")]
    for each in folders:
        each.mkdir()
    with (
        running_server(folders[0], overrides=WITH_ACLS) as one,
        running_server(folders[1], overrides=WITH_ACLS) as other,
        BlockingClient(one.bootstrap) as east,
        BlockingClient(other.bootstrap) as west,
    ):
        make(east, "shared", 1)
        reads = Acl(
            Resource.TOPIC, "shared", PatternType.LITERAL, "User:ann", "*", Operation.READ, PermissionType.ALLOW
        )
        create_acls(east, [reads])
        with running_connect(tmp_path, other.bootstrap, **CONVERTERS, **{"plugin.path": str(package)}) as worker:
            create(worker, "Source", flow((one, other), topics="shared", **own))
            line = "acls east.shared User:ann READ"
            until(lambda: told.exists() and told.read_text().splitlines().count(line) == 2, "two tries")
            create_acls(east, [replace(reads, principal="User:bob")])
            until(lambda: "acls east.shared User:bob READ" in told.read_text().splitlines(), told.read_text)
        assert told.read_text().splitlines().count(line) == 2
        assert not describe_acls(west, AclFilter())


@pytest.mark.usefixtures("found")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("com.acme.OwnFilter", "no Python module com.acme.*Java.*ottla.mirror.TopicFilter"),
        ("acme_mirroring.rules.Missing", "module acme_mirroring.rules has no class Missing"),
        ("acme_mirroring.nowhere.Any", "no Python module acme_mirroring.nowhere"),
        ("acme_mirroring.broken:Any", "no_such_module_of_acme"),
        ("acme_mirroring.rules:NoFilter", "no subclass of ottla.mirror.TopicFilter"),
        ("acme_mirroring.rules:Billing", "no subclass of ottla.mirror.TopicFilter"),
        ("acme_mirroring.rules:Path", "no subclass"),
        ("acme_mirroring.rules:OWN", "no class OWN"),
        ("acme_mirroring.rules:Nothing", "does not say should_replicate_topic"),
        ("acme_mirroring.rules:Failing", "KeyError"),
        ("os.system", "Python's own library"),
        ("../rules.py", "expected package.module.Class"),
        ("acme_mirroring.rules:", "expected package.module.Class"),
        ("ottla.mirror.TopicFilter", "does not say"),
        ("org.apache.kafka.connect.mirror.DefaultGroupFilter", "no Python module org.apache"),
        (f"a.{'b' * 9000}", "no Python module"),
    ],
)
def test_a_class_that_cannot_be_had_is_refused_with_what_to_do(name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        topic_filter({"topic.filter.class": name})
    told = MirrorSourceConnector().validate(
        {
            "name": "m",
            "connector.class": "any",
            "source.cluster.alias": "east",
            "source.cluster.bootstrap.servers": "localhost:1",
            "target.cluster.bootstrap.servers": "localhost:2",
            "topic.filter.class": name,
        }
    )
    assert [each for each, value in told.items() if value.errors] == ["topic.filter.class"]


@pytest.mark.usefixtures("found")
def test_every_kind_of_class_is_found_by_python_and_kafkas_names_go_on_working() -> None:
    rules = "acme_mirroring.rules"
    own = {
        "replication.policy.class": f"{rules}.Suffixes",
        "topic.filter.class": f"{rules}.OfTenant",
        "group.filter.class": f"{rules}.Billing",
        "config.property.filter.class": f"{rules}.OnlyRetention",
        "forwarding.admin.class": f"{rules}.Told",
        "tenant": "acme",
    }
    policy = policy_of({**own, "replication.policy.between": "@"})
    assert isinstance(policy, ReplicationPolicy) and policy.format_remote_topic("east", "a") == "a@east"
    assert is_cycle(policy, "a@west@north", "west") and not is_cycle(policy, "a@north", "west")
    assert policy.original_topic("a@east@west") == "a" and policy.is_heartbeats_topic("heartbeats@east")
    assert policy.is_internal_topic("mm2-offset-syncs.west.internal") and policy.is_internal_topic("__x")
    chosen, groups, properties = topic_filter(own), group_filter(own), property_filter(own)
    assert isinstance(chosen, TopicFilter) and chosen.should_replicate_topic("acme1")
    assert isinstance(groups, GroupFilter) and not groups.should_replicate_group("x")
    assert isinstance(properties, ConfigPropertyFilter) and not properties.should_replicate_source_default("x")
    assert issubclass(admin_class(own), ForwardingAdmin) and admin_class({}) is ForwardingAdmin
    for package in ("", "org.apache.kafka.connect.mirror."):
        named = {"topic.filter.class": f"{package}DefaultTopicFilter", "topics": "a|b"}
        assert topic_filter(named).should_replicate_topic("b")
        assert isinstance(
            policy_of({"replication.policy.class": f"{package}DefaultReplicationPolicy"}), ReplicationPolicy
        )


def test_a_policy_that_has_a_topic_before_each_one_is_told_so_and_ends() -> None:
    class Endless(DefaultReplicationPolicy):
        def topic_source(self, topic: str) -> str | None:
            return "north"

        def upstream_topic(self, topic: str) -> str | None:
            return topic + "x"

    with pytest.raises(ValueError, match="on and on"):
        Endless().original_topic("a")
    with pytest.raises(ValueError, match="on and on"):
        is_cycle(Endless(), "a", "west")
    assert DefaultReplicationPolicy().original_topic("a." * (HOPS_MAX - 1) + "b") == "b"
