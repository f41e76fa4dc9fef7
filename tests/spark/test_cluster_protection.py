"""On a Spark cluster a secured application starts only where what its processes tell each other is protected too."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.base import ConfigError
from ottla.client import BlockingClient, client_network
from ottla.spark.cluster_protection import OPT_OUT, check_cluster, check_source, configured, lacking, secured_part
from ottla.spark.connect.jobs import SparkJobs
from ottla.spark.sessions import register, session
from ottla.spark.source.datasource import OttlaDataSource, source_for
from ottla.spark.source.secured import KeptAside
from ottla.spark.streams.launch import application_session
from ottla.streams import StreamsSettings
from tests.spark.conftest import create_topic
from tests.spark.secured_broker import secured_broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLUSTER = "spark://host:7077"
SECURED = "security.protocol=SASL_SSL"
PROTECTED = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("properties", "part"),
    [
        ({"security.protocol": "PLAINTEXT", "listeners": "http://:8083"}, None),
        ({"security.protocol": "ssl"}, "security.protocol=ssl"),
        ({"consumer.security.protocol": "SASL_SSL"}, "consumer.security.protocol=SASL_SSL"),
        (
            {"producer.override.security.protocol": "SASL_PLAINTEXT"},
            "producer.override.security.protocol=SASL_PLAINTEXT",
        ),
        ({"listeners": "http://:1,https://:2"}, "listeners=http://:1,https://:2"),
        ({"http.listener": "https://8080"}, "http.listener=https://8080"),
    ],
)
def test_what_is_secured_is_found_among_properties(properties: dict[str, str], part: str | None) -> None:
    assert secured_part(properties) == part


@pytest.mark.parametrize(
    ("master", "secured", "settings"),
    [
        ("local[2]", SECURED, {}),
        ("local-cluster[2,1,1024]", SECURED, {}),
        (CLUSTER, None, {}),
        (CLUSTER, SECURED, PROTECTED),
        ("yarn", SECURED, {"spark.authenticate": "true", "spark.ssl.rpc.enabled": "TRUE"}),
        (CLUSTER, SECURED, {OPT_OUT: "true"}),
        ("sc://localhost:15002", SECURED, PROTECTED),
        ("sc://host:15002/;use_ssl=true;token=t", SECURED, PROTECTED),
    ],
)
def test_what_is_protected_or_local_or_not_secured_may_start(
    master: str, secured: str | None, settings: dict[str, str]
) -> None:
    check_cluster(master, secured, settings.get)


@pytest.mark.parametrize(
    ("master", "settings", "words"),
    [
        (CLUSTER, {}, "it needs spark.authenticate=true and spark.network.crypto.enabled=true"),
        (CLUSTER, {"spark.authenticate": "true"}, "it needs spark.network.crypto.enabled=true"),
        (CLUSTER, {"spark.network.crypto.enabled": "true"}, "it needs spark.authenticate=true"),
        ("yarn", PROTECTED | {"spark.authenticate": "false"}, "it needs spark.authenticate=true"),
        ("k8s://https://host", {}, OPT_OUT),
        ("sc://host:15002/;token=never-shown", PROTECTED, "use_ssl=true in its address"),
        ("sc://localhost.example:15002", PROTECTED, "use_ssl=true in its address"),
    ],
)
def test_an_unprotected_cluster_is_refused_with_what_it_needs(
    master: str, settings: dict[str, str], words: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        check_cluster(master, SECURED, settings.get)
    assert words in str(raised.value) and SECURED in str(raised.value) and "never-shown" not in str(raised.value)


def test_what_spark_is_told_elsewhere_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# site\nspark.authenticate   true\nspark.network.crypto.enabled true\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.authenticate=false --master x pyspark-shell")
    assert configured({"spark.network.crypto.enabled": "false"}) == {
        "spark.authenticate": "false",
        "spark.network.crypto.enabled": "false",
    }
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert configured({}) is None


def test_a_session_a_worker_and_an_application_are_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match=r"spark\.authenticate"):
        session(master=CLUSTER, secured=SECURED)
    with pytest.raises(ConfigError, match=r"consumer\.security\.protocol=SSL secures"):
        SparkJobs(
            {"spark.master": CLUSTER, "spark.driver.host": "127.0.0.1", "consumer.security.protocol": "SSL"}
        ).start()
    settings = StreamsSettings.of(
        {
            "application.id": "a",
            "bootstrap.servers": "b:1",
            "security.protocol": "SSL",
            "spark.master": CLUSTER,
        }
    )
    with pytest.raises(ConfigError, match=r"spark\.authenticate"):
        application_session(settings)


PLAIN_OPTIONS = {"kafka.bootstrap.servers": "127.0.0.1:9", "subscribe": "t"}
SECURED_OPTIONS = {**PLAIN_OPTIONS, "Kafka.Security.Protocol": "SSL"}


@pytest.mark.parametrize(
    ("options", "cluster"),
    [
        (PLAIN_OPTIONS, None),
        (PLAIN_OPTIONS | {"kafka.security.protocol": "plaintext"}, "Spark cluster x would travel unprotected: …"),
        (SECURED_OPTIONS, ""),
    ],
)
def test_a_source_that_is_not_secured_or_on_a_protected_cluster_may_be(
    options: dict[str, str], cluster: str | None
) -> None:
    check_source(options, cluster)


def test_the_source_of_a_registered_session_knows_its_cluster_where_spark_makes_it() -> None:
    from pyspark import cloudpickle

    lacks = lacking(CLUSTER, {}.get)
    known = pickle.loads(cloudpickle.dumps(source_for(lacks)))
    assert known.name() == "ottla" and known is not OttlaDataSource
    makers: list[Callable[[OttlaDataSource], Any]] = [
        lambda source: source.reader(source.schema()),
        lambda source: source.streamReader(source.schema()),
        lambda source: source.writer(source.schema(), False),
        lambda source: source.streamWriter(source.schema(), False),
    ]
    for make in makers:
        with pytest.raises(ConfigError, match=r"kafka\.security\.protocol=SSL .*spark\.authenticate=true"):
            make(known(SECURED_OPTIONS))
        with pytest.raises(ConfigError, match=r"call ottla\.spark\.register\(spark\) before"):
            make(OttlaDataSource(SECURED_OPTIONS))


@pytest.mark.spark
def test_a_session_of_ones_own_reads_secured_topics_once_it_is_registered(spark: SparkSession, tmp_path: Path) -> None:
    own = spark.newSession()
    with secured_broker(tmp_path) as secured:
        with BlockingClient(secured.bootstrap, network=client_network(secured.properties)) as client:
            create_topic(client, "t")
        aside = KeptAside(secured.properties, local=True)
        told = {f"kafka.{key}": value for key, value in aside.properties.items()}
        options = {"kafka.bootstrap.servers": secured.bootstrap, **told}
        rows = own.read.format("ottla").options(**options, subscribe="t")
        with pytest.raises(Exception, match=r"call ottla\.spark\.register\(spark\) before"):
            rows.load().count()
        register(own)
        assert rows.load().count() == 0
