"""From files, environment and overrides to one typed value."""

from __future__ import annotations

import pytest

from ottla.base import ConfigError
from ottla.config import BrokerConfig, ConfigSource, Listener, SecurityProtocol, validate_broker_configs
from ottla.config.broker_keys import BROKER_KEYS
from ottla.config.gone import gone

COMBINED = """
process.roles=broker,controller
node.id=7
controller.quorum.voters=7@localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
advertised.listeners=PLAINTEXT://broker.example:9092
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=/a,/b
"""


def test_nothing_needs_to_be_configured() -> None:
    config = BrokerConfig.load()
    assert config.node_id == 1
    assert config.roles == {"broker", "controller"}
    assert config.log_dirs == ("./ottla-data",)
    assert config.listeners == (Listener("PLAINTEXT", "127.0.0.1", 9092, SecurityProtocol.PLAINTEXT),)
    assert config.advertised_listeners == config.listeners
    assert config.listens_on_default_only
    assert config.is_quorum_of_one
    assert config.settings.offsets_topic_replication_factor == 1
    assert config.settings.transaction_state_log_min_isr == 1
    assert config.settings.num_partitions == 1
    assert config.settings.log_segment_bytes == 1 << 30
    assert config.warnings == ()


def test_kafkas_own_combined_configuration_is_read() -> None:
    config = BrokerConfig.load(COMBINED)
    assert config.node_id == 7
    assert config.log_dirs == ("/a", "/b")
    assert config.metadata_log_dir == "/a"
    assert [each.name for each in config.listeners] == ["PLAINTEXT", "CONTROLLER"]
    assert [each.name for each in config.client_listeners] == ["PLAINTEXT"]
    assert [str(each) for each in config.advertised_listeners] == ["PLAINTEXT://broker.example:9092"]
    assert not config.listens_on_default_only
    assert config.is_quorum_of_one


def test_controllers_may_be_advertised_beside_brokers_and_clients_are_not_told() -> None:
    advertised = "advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093"
    config = BrokerConfig.load(COMBINED, overrides=[advertised])
    assert [str(each) for each in config.advertised_listeners] == ["PLAINTEXT://localhost:9092"]
    roles = ["process.roles=broker", "controller.quorum.voters=9@c:9093", "listeners=PLAINTEXT://:9092"]
    with pytest.raises(ConfigError, match="must not contain a controller listener"):
        BrokerConfig.load(COMBINED, overrides=[*roles, advertised])


def test_a_set_replication_factor_stands_even_alone() -> None:
    assert BrokerConfig.load("offsets.topic.replication.factor=3").settings.offsets_topic_replication_factor == 3


def test_kafkas_defaults_stand_where_the_quorum_has_more_voters() -> None:
    config = BrokerConfig.load(COMBINED, overrides=["controller.quorum.voters=7@a:9093,8@b:9093,9@c:9093"])
    assert not config.is_quorum_of_one
    assert config.settings.offsets_topic_replication_factor == 3
    assert [(voter.node_id, voter.host, voter.port) for voter in config.voters][1] == (8, "b", 9093)


def test_overrides_win_over_environment_and_environment_over_the_file() -> None:
    config = BrokerConfig.load(
        "num.partitions=1\nlog.dirs=/file\nnum.io.threads=2",
        environment={"KAFKA_NUM_PARTITIONS": "2", "KAFKA_LOG_DIRS": "/env"},
        overrides=["num.partitions=3"],
    )
    assert config.settings.num_partitions == 3
    assert config.log_dirs == ("/env",)
    assert config.settings.num_io_threads == 2


def test_an_unknown_key_is_named_with_the_closest_known_one() -> None:
    config = BrokerConfig.load("num.partitons=3", environment={"KAFKA_LOG_SEGMENT_BITES": "9", "KAFKA_HOME": "/opt"})
    assert config.warnings == (
        "unknown configuration num.partitons is ignored; did you mean num.partitions?",
        "unknown configuration KAFKA_LOG_SEGMENT_BITES is ignored; did you mean log.segment.bytes?",
    )


def test_a_key_of_kafka_before_4_is_named_with_what_does_its_work_now() -> None:
    config = BrokerConfig.load(
        "zookeeper.connect=zk:2181\nzookeeper.connection.timeout.ms=18000\ninter.broker.protocol.version=3.5",
        environment={"KAFKA_ADVERTISED_HOST_NAME": "b", "KAFKA_PORT": "tcp://10.0.0.1:9092"},
    )
    assert config.warnings == (
        "gone from Kafka and ignored: zookeeper.connect, zookeeper.connection.timeout.ms (there is no ZooKeeper; brokers "
        "keep the cluster's metadata themselves (KRaft), those that controller.quorum.voters names; without it this "
        "broker is a cluster of its own)",
        "gone from Kafka and ignored: inter.broker.protocol.version (the cluster's metadata.version takes its place "
        "(`ottla features`))",
        "gone from Kafka and ignored: KAFKA_ADVERTISED_HOST_NAME (listeners says where the broker listens, and "
        "advertised.listeners where clients find it)",
    )


def test_no_key_is_told_to_be_gone_that_there_is() -> None:
    assert [name for name in BROKER_KEYS if gone(name) is not None] == []


def test_listener_prefixed_keys_are_known() -> None:
    text = "listener.name.external.ssl.keystore.type=PEM\nlistener.name.external.plain.sasl.jaas.config=x"
    assert BrokerConfig.load(text).warnings == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("num.partitions=0", "num.partitions: Value must be at least 1"),
        ("num.partitions=many", "num.partitions: Not a number of type INT"),
        ("listeners=PLAINTEXT:9092", "expected LISTENER_NAME://host:port"),
        ("listeners=PLAINTEXT://:70000", "expected LISTENER_NAME://host:port"),
        ("listeners=CLIENT://:9092", "No security protocol defined for listener CLIENT"),
        ("listeners=PLAINTEXT://:9092,PLAINTEXT://:9093", "Each listener must have a different name"),
        ("listeners=PLAINTEXT://:9092,SSL://:9092", "Each listener must have a different port"),
        ("advertised.listeners=SSL://x:1", "advertised.listeners: must be one of the names in listeners"),
        ("listeners=SSL://:9092", "inter.broker.listener.name: must be one of the advertised listeners: SSL"),
        ("controller.listener.names=CONTROLLER", "controller.listener.names: must be one of the names in listeners"),
        ("controller.quorum.voters=1-localhost:9", "{id}@{host}:{port}"),
        ("controller.quorum.voters=2@localhost:9", "must contain this controller's own id, 1"),
        ("node.id=1\nbroker.id=2", "broker.id: must be the same as node.id"),
        ("node.id=", "configuration node.id: Not a number"),
        ("broker.id=x", "configuration broker.id: Not a number"),
        ("process.roles=broker,zookeeper", "String must be one of: broker, controller"),
        ("log.retention.ms=0", "must be unlimited (-1) or, equal or greater than 1"),
        ("group.consumer.session.timeout.ms=1000", "equal to group.consumer.min.session.timeout.ms, which is 45000"),
        ("group.share.max.heartbeat.interval.ms=1", "equal to group.share.min.heartbeat.interval.ms, which is 5000"),
        (
            "group.streams.min.session.timeout.ms=1000\ngroup.streams.session.timeout.ms=2000",
            "group.streams.heartbeat.interval.ms: must be less than group.streams.session.timeout.ms, which is 2000",
        ),
        ("replica.fetch.wait.max.ms=40000", "less than or equal to replica.lag.time.max.ms"),
        ("listener.security.protocol.map=PLAINTEXT:PLAIN", "every entry is NAME:PROTOCOL"),
    ],
)
def test_a_bad_value_stops_the_start_with_key_value_and_what_is_allowed(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.load(text)
    assert said in str(caught.value)


def test_ipv6_hosts_are_read_and_written() -> None:
    config = BrokerConfig.load("listeners=PLAINTEXT://[::1]:9092")
    assert config.listeners[0].host == "::1"
    assert str(config.listeners[0]) == "PLAINTEXT://[::1]:9092"


def test_the_old_id_name_stands_for_the_new_one() -> None:
    assert BrokerConfig.load("broker.id=5").node_id == 5
    assert BrokerConfig.load("node.id=5").settings.broker_id == 5


def test_dynamic_values_win_and_know_their_source() -> None:
    config = BrokerConfig.load("log.retention.ms=1000").with_dynamic(
        default={"log.retention.ms": "2000", "log.segment.bytes": "2000000"}, own={"log.retention.ms": "3000"}
    )
    assert config.settings.log_retention_ms == 3000
    (entry,) = config.entries(["log.retention.ms"])
    assert [(each.value, each.source) for each in entry.synonyms] == [
        ("3000", ConfigSource.DYNAMIC_BROKER_CONFIG),
        ("2000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("1000", ConfigSource.STATIC_BROKER_CONFIG),
        ("168", ConfigSource.DEFAULT_CONFIG),
    ]
    assert not entry.read_only
    assert [(each.name, each.value) for each in config.default_entries()] == [
        ("log.retention.ms", "2000"),
        ("log.segment.bytes", "2000000"),
    ]


def test_a_replayed_dynamic_value_that_does_not_parse_is_left_out_with_a_warning() -> None:
    config = BrokerConfig.load().with_dynamic(default={"log.segment.bytes": "x", "num.io.threads": "4"}, own={})
    assert config.settings.log_segment_bytes == 1 << 30
    assert config.settings.num_io_threads == 4
    assert "log.segment.bytes" in config.warnings[0]


def test_secrets_and_unknown_keys_are_reported_without_their_values() -> None:
    config = BrokerConfig.load("ssl.key.password=s3cret\nmy.plugin.token=t0ken")
    entries = {entry.name: entry for entry in config.entries()}
    assert entries["ssl.key.password"].value is None and entries["ssl.key.password"].sensitive
    assert entries["my.plugin.token"].value is None and entries["my.plugin.token"].read_only
    assert "s3cret" not in str(entries) and "t0ken" not in str(entries)


def test_a_dynamic_change_is_held_against_the_keys_update_mode() -> None:
    validate_broker_configs({"log.retention.ms": "5", "my.plugin.key": "x"}, per_broker=False)
    with pytest.raises(ConfigError, match=r"Cannot update these configs dynamically: \[num.partitions\]"):
        validate_broker_configs({"num.partitions": "5"}, per_broker=True)
    with pytest.raises(ConfigError, match="broker id must be specified"):
        validate_broker_configs({"listener.name.x.ssl.keystore.location": "/x"}, per_broker=False)
    with pytest.raises(ConfigError, match="only per-listener using the listener prefix"):
        validate_broker_configs({"ssl.keystore.location": "/x"}, per_broker=True)
    with pytest.raises(ConfigError, match="Not a number of type LONG"):
        validate_broker_configs({"log.retention.ms": "x"}, per_broker=False)


def test_settings_are_frozen() -> None:
    with pytest.raises(AttributeError, match="frozen"):
        BrokerConfig.load().settings.num_partitions = 3


def test_a_data_folder_may_begin_with_the_home_folder() -> None:
    config = BrokerConfig.load("log.dirs=~/one, ~/two,/three/~/x", environment={"HOME": "/h"})
    assert config.log_dirs == ("/h/one", "/h/two", "/three/~/x")
    assert BrokerConfig.load("log.dirs=~/one", environment={}).log_dirs == ("~/one",)


def test_http_is_served_nowhere_unless_it_is_asked_for() -> None:
    assert BrokerConfig.load().http_listeners == ()
    config = BrokerConfig.load("ottla.http.listeners=http://127.0.0.1:9404,http://[::1]:0")
    assert [str(each) for each in config.http_listeners] == ["http://127.0.0.1:9404", "http://[::1]:0"]


@pytest.mark.parametrize("bad", ["127.0.0.1:9404", "ftp://x:1", "http://x", "http://x:70000", "PLAINTEXT://x:1"])
def test_an_address_that_is_not_http_is_refused(bad: str) -> None:
    with pytest.raises(ConfigError, match="expected http://host:port"):
        BrokerConfig.load(f"ottla.http.listeners={bad}")
