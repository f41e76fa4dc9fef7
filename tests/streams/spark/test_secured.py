"""An application whose brokers encrypt and ask for a login: driver, tasks, stores and a rebuild get in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.base import ConfigError
from ottla.client import BlockingClient, client_network
from ottla.spark.streams.secured import told_to_spark
from ottla.streams import StreamsSettings
from tests.spark.secured_broker import PASSWORD, secured_broker
from tests.streams.spark.test_application import World, joining

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDED = {"application.id": "app", "bootstrap.servers": "h:1", "security.protocol": "SASL_SSL"}
LOGIN = {
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'a.b.PlainLoginModule required username="u" password="{PASSWORD}";',
}


@pytest.mark.spark
def test_it_runs_and_rebuilds_its_state_over_tls_with_a_login(spark: SparkSession, tmp_path: Path) -> None:
    with (
        secured_broker(tmp_path) as secured,
        BlockingClient(secured.bootstrap, network=client_network(secured.properties)) as client,
    ):
        world = World("secured", client, spark, tmp_path)
        once = {"processing.guarantee": "exactly_once_v2", **secured.properties}
        words = []
        for turn in ("one", "two"):  # the second has another state.dir, and reads the changelog
            words.append(turn)
            world.feed(turn, key="k")
            with world.application(joining("secured"), **{"state.dir": f"{tmp_path}/{turn}"}, **once) as application:
                world.until(application, "lines", {"k": " ".join(words)})
        assert [value for _, value in world.outputs()] == [b"one", b"one two"]


def test_what_spark_is_told_holds_no_secret() -> None:
    told = told_to_spark(StreamsSettings.of({**NEEDED, **LOGIN}))
    assert told["kafka.security.protocol"] == "SASL_SSL" and PASSWORD not in repr(told)
    assert not told_to_spark(StreamsSettings.of({**NEEDED, "security.protocol": "PLAINTEXT"}))


def test_on_a_cluster_a_plain_secret_is_refused() -> None:
    given = {**NEEDED, **LOGIN, "spark.master": "spark://host:7077"}
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config.*\$\{env:NAME\}"):
        told_to_spark(StreamsSettings.of(given))
    given["sasl.jaas.config"] = "${env:LOGIN}"
    assert told_to_spark(StreamsSettings.of(given))["kafka.sasl.jaas.config"] == "${env:LOGIN}"


def test_one_protection_holds_for_all_clients() -> None:
    with pytest.raises(ConfigError, match=r"give sasl\.jaas\.config without producer\.") as refused:
        StreamsSettings.of({**NEEDED, "producer.sasl.jaas.config": PASSWORD})
    assert PASSWORD not in str(refused.value)
