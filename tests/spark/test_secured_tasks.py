"""Tasks and Spark's own sources and sinks reach brokers that encrypt and ask for a login, and no option holds a password."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.base import ConfigError
from ottla.client import BlockingClient
from ottla.connect.tasks import TaskSpec, WorkerClients
from ottla.spark.source import client_pool, options, positions
from ottla.spark.source.secured import KeptAside, network_of
from tests.spark.running import await_true, running, spec_of
from tests.spark.secured_broker import PASSWORD, PLAIN, Secured, secured_broker
from tests.spark.test_task_sink import Keeping, KeepingTask
from tests.spark.test_task_source import Counting


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


def task(secured: Secured, config: dict[str, str], **given: str) -> TaskSpec:
    made = spec_of(secured.bootstrap, config)
    properties = {**secured.properties, **given}
    return replace(made, clients=WorkerClients(secured.bootstrap, properties, properties, properties))


def test_a_source_and_a_sink_log_in_over_tls(secured: Secured) -> None:
    source = task(secured, {"name": "counting", "connector.class": "Counting", "topic": "numbers", "end": "100"})
    sink = task(secured, {"name": "keeping", "connector.class": "Keeping", "topics": "numbers"})
    with running(source, Counting) as counting:
        with running(sink, Keeping):
            kept = KeepingTask.kept.setdefault("keeping", [])
            await_true(lambda: len(kept) == 100, "not all has arrived")
        assert not counting.port.trace
    assert [each.value for each in kept] == list(range(100))


@pytest.mark.parametrize("name", ["source", "sink"])
def test_a_task_with_a_wrong_password_fails_and_says_why(secured: Secured, name: str) -> None:
    wrong = {"sasl.jaas.config": f'{PLAIN} username="ann" password="wrong-guess";'}
    if name == "source":
        config = {"name": "refused", "connector.class": "Counting", "topic": "numbers"}
        with running(task(secured, config, **wrong), Counting) as refused:
            refused.ended()
    else:
        config = {"name": "refused-sink", "connector.class": "Keeping", "topics": "numbers"}
        with running(task(secured, config, **wrong), Keeping) as refused:
            refused.ended()
    assert "SASL_AUTHENTICATION_FAILED" in refused.port.trace or "Authentication failed" in refused.port.trace
    assert "wrong-guess" not in refused.port.trace


def test_what_spark_is_told_holds_no_secret_and_still_gets_in(secured: Secured) -> None:
    aside = KeptAside(secured.properties, local=True)
    told = {f"kafka.{key}": value for key, value in aside.properties.items()}
    assert PASSWORD not in repr(told)
    read = options.read_options(
        {"kafka.bootstrap.servers": secured.bootstrap, "subscribe": "t", **told}, streaming=False
    )
    assert "jaas" not in repr(read)
    with positions.connect(read.connecting) as client:
        assert client.metadata() is not None
    with client_pool.pooled_client(read.connecting) as pooled:
        assert pooled.client.metadata() is not None


def test_a_secret_that_was_kept_aside_is_gone_with_its_owner(tmp_path: Path) -> None:
    aside = KeptAside({"sasl.jaas.config": "x"}, local=True)
    folder = Path(aside.properties["sasl.jaas.config"].split(":")[1])
    assert [each.stat().st_mode & 0o777 for each in (folder, *folder.iterdir())] == [0o700, 0o600]
    del aside
    assert not folder.exists()


def test_placeholders_are_looked_up_where_a_client_is_made(
    secured: Secured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ANN", secured.properties["sasl.jaas.config"])
    given = {**secured.properties, "sasl.jaas.config": "${env:ANN}"}
    network = network_of(tuple(sorted(given.items())))
    with BlockingClient(secured.bootstrap, network=network) as client:
        assert client.metadata() is not None
    missing = {**secured.properties, "sasl.jaas.config": "${env:NOBODY_HAS_SET_THIS}"}
    with pytest.raises(ConfigError, match="NOBODY_HAS_SET_THIS"):
        network_of(tuple(sorted(missing.items())))


def test_on_a_cluster_a_plain_secret_is_refused_without_being_told() -> None:
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config.*\$\{env:NAME\}") as refused:
        KeptAside({"sasl.jaas.config": PASSWORD}, local=False)
    assert PASSWORD not in str(refused.value)
    KeptAside({"sasl.jaas.config": "${env:ANN}"}, local=False)
