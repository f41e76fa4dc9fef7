"""The pytest plugin: fixtures and settings. pytest loads it where Ottla is installed (entry point `pytest11`)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pytest

if TYPE_CHECKING:
    from ottla.testing.clock import KafkaClock
    from ottla.testing.faults import KafkaFaults
    from ottla.testing.kafka import Kafka, Record
    from ottla.testing.services import Connect, SchemaRegistry, Sql

__all__ = [
    "connect",
    "connect_settings",
    "kafka",
    "kafka_clock",
    "kafka_factory",
    "kafka_faults",
    "kafka_records",
    "kafka_settings",
    "kafka_topic",
    "ottla_sql",
    "ottla_sql_settings",
    "schema_registry",
    "schema_registry_settings",
]

SETTINGS = "ottla_kafka_settings"
START_SECONDS = "ottla_start_seconds"
START_SECONDS_MAX = 86_400.0
KEEP = "--ottla-keep"
TOPIC_MARKER = "kafka_topic"
SESSION = "kafka"
"""The fixture whose broker is several tests' own: it is reported of where a test has used it."""


@dataclass
class Run:
    """What a run of pytest has of brokers."""

    brokers: dict[Kafka, int] = field(default_factory=dict)
    """The brokers that run now, each with its log's position when the test began."""
    kept: list[Path] = field(default_factory=list)
    """Folders of brokers' data that stay."""


RUNS: WeakKeyDictionary[pytest.Config, Run] = WeakKeyDictionary()
"""By its configuration, as whose stash it would be where no pytest was older than that: its runs must not break either."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare what a project's configuration and the command line may say."""
    parser.addini(SETTINGS, "settings of the tests' broker, a line key=value each", type="linelist", default=[])
    parser.addini(START_SECONDS, "how long a broker or a service may take to start, in seconds", default="60")
    group = parser.getgroup("ottla", "Kafka by Ottla")
    group.addoption(KEEP, action="store_true", help="leave the brokers' data behind, and say where")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, and begin without brokers."""
    RUNS[config] = Run()
    config.addinivalue_line(
        "markers", f"{TOPIC_MARKER}(partitions=1, config={{}}): how the topic of the fixture `kafka_topic` is made"
    )


# -- what a failure says


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remember how far the brokers' logs are."""
    brokers = RUNS[item.config].brokers
    for each in brokers:
        brokers[each] = each.log_position()


@pytest.hookimpl(hookwrapper=True)  # the old form: the plugin must not break the runs of an older pytest
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Say of each broker that a failed test has used what is in it now."""
    report: pytest.TestReport = (yield).get_result()
    if report.failed:
        for each, log_from in list(RUNS[item.config].brokers.items()):
            if not each.is_shared or SESSION in getattr(item, "fixturenames", ()):
                from ottla.testing.report import report_text

                report.sections.append((f"Kafka at {each.bootstrap_servers}", report_text(each, log_from=log_from)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say where brokers' data was left."""
    for each in RUNS[config].kept:
        terminalreporter.write_line(f"ottla: a broker's data is left in {each}")


# -- the broker


@pytest.fixture(scope="session")
def kafka_settings(pytestconfig: pytest.Config) -> Mapping[str, object]:
    """The settings of the tests' broker; a project overrides this fixture, or says them in its configuration."""
    from ottla.testing.kafka import settings_of

    try:
        return settings_of(pytestconfig.getini(SETTINGS))
    except ValueError as error:
        raise pytest.UsageError(f"{SETTINGS}: {error}") from None


@pytest.fixture(scope="session")
def kafka(kafka_settings: Mapping[str, object], pytestconfig: pytest.Config) -> Iterator[Kafka]:
    """A broker of this run, or of this worker of pytest-xdist: started when first asked for, on a port of its own."""
    with ExitStack() as stack:
        yield _started(stack, pytestconfig, kafka_settings, is_shared=True)


@pytest.fixture
def kafka_factory(pytestconfig: pytest.Config) -> Iterator[Callable[..., Kafka]]:
    """Starts brokers of a test's own: `kafka_factory(settings)`, or `kafka_factory()`; they end with the test."""
    with ExitStack() as stack:
        yield lambda settings=None: _started(stack, pytestconfig, settings or {})


@pytest.fixture
def kafka_faults(kafka_settings: Mapping[str, object], pytestconfig: pytest.Config) -> Iterator[KafkaFaults]:
    """A broker of the test's own that fails as the test says: errors, lost answers, moved leaders, kills, a full disk."""
    from ottla.testing.faults import running_faults

    with ExitStack() as stack:
        folder = _folder(stack, pytestconfig)
        seconds = _start_seconds(pytestconfig)
        found = stack.enter_context(running_faults(kafka_settings, folder=folder, ready_seconds=seconds))
        _reported(stack, pytestconfig, found.kafka)
        yield found


@pytest.fixture
def kafka_clock(kafka_settings: Mapping[str, object], pytestconfig: pytest.Config) -> Iterator[KafkaClock]:
    """A broker in this process under a clock that the test turns: `kafka_clock.advance(hours=1)`."""
    from ottla.testing.clock import running_clock

    with ExitStack() as stack:
        folder = _folder(stack, pytestconfig)
        seconds = _start_seconds(pytestconfig)
        found = stack.enter_context(running_clock(kafka_settings, folder=folder, ready_seconds=seconds))
        _reported(stack, pytestconfig, found.kafka)
        yield found


def _started(
    stack: ExitStack, config: pytest.Config, settings: Mapping[str, object], *, is_shared: bool = False
) -> Kafka:
    from ottla.testing.brokers import running_broker

    folder = _folder(stack, config)
    found = stack.enter_context(running_broker(settings, folder=folder, ready_seconds=_start_seconds(config)))
    found.is_shared = is_shared
    return _reported(stack, config, found)


def _folder(stack: ExitStack, config: pytest.Config) -> Path:
    """Return a folder for a broker's data, which is gone with the broker unless the command line says that it stays."""
    from ottla.testing.brokers import broker_folder

    keep = bool(config.getoption(KEEP))
    folder = stack.enter_context(broker_folder(None, keep=keep))
    if keep:
        RUNS[config].kept.append(folder)
    return folder


def _reported(stack: ExitStack, config: pytest.Config, broker: Kafka) -> Kafka:
    """Have the reports of failed tests speak of a broker while it runs."""
    brokers = RUNS[config].brokers
    brokers[broker] = 0
    stack.callback(brokers.pop, broker)
    return broker


def _start_seconds(config: pytest.Config) -> float:
    said = str(config.getini(START_SECONDS))
    try:
        seconds = float(said)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= START_SECONDS_MAX:  # nor is what is no number
        raise pytest.UsageError(f"{START_SECONDS} is a number of seconds above 0, not {said!r}")
    return seconds


# -- topics and records


@pytest.fixture
def kafka_topic(kafka: Kafka, request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh topic, named after the test and deleted after it; the marker `kafka_topic` says how it is made."""
    marker = request.node.get_closest_marker(TOPIC_MARKER)
    if marker and marker.args:
        raise pytest.UsageError(
            f"the marker {TOPIC_MARKER} takes partitions=… and config=…, by name, not {marker.args}"
        )
    made = kafka.create_topic(kafka.new_name(request.node.name), **(marker.kwargs if marker else {}))
    yield made
    from ottla.base import OttlaError

    with suppress(OttlaError):  # the test may have deleted it, or have killed the broker
        kafka.delete_topic(made)


@pytest.fixture
def kafka_records(kafka: Kafka) -> Callable[..., list[Record]]:
    """Reads a topic from its beginning to its high watermark: `kafka_records(topic, committed=…, at_least=…)`."""
    return kafka.records


# -- services


@pytest.fixture(scope="session")
def schema_registry_settings() -> Mapping[str, object]:
    """The settings of the tests' schema registry; a project overrides this fixture."""
    return {}


@pytest.fixture(scope="session")
def schema_registry(
    kafka: Kafka,
    schema_registry_settings: Mapping[str, object],
    tmp_path_factory: pytest.TempPathFactory,
    pytestconfig: pytest.Config,
) -> Iterator[SchemaRegistry]:
    """A schema registry beside `kafka`, started when first asked for; needs the extra `registry`."""
    from ottla.testing.services import running_registry

    folder = tmp_path_factory.mktemp("registry")
    with running_registry(
        kafka.bootstrap_servers, schema_registry_settings, folder=folder, ready_seconds=_start_seconds(pytestconfig)
    ) as found:
        yield found


@pytest.fixture(scope="session")
def connect_settings() -> Mapping[str, object]:
    """The settings of the tests' Connect worker; a project overrides this fixture."""
    return {}


@pytest.fixture(scope="session")
def connect(
    kafka: Kafka,
    connect_settings: Mapping[str, object],
    tmp_path_factory: pytest.TempPathFactory,
    pytestconfig: pytest.Config,
) -> Iterator[Connect]:
    """A Connect worker beside `kafka`, started when first asked for; needs the extra `connect` and a Java."""
    from ottla.testing.services import running_connect

    folder = tmp_path_factory.mktemp("connect")
    with running_connect(
        kafka.bootstrap_servers, connect_settings, folder=folder, ready_seconds=_start_seconds(pytestconfig)
    ) as found:
        yield found


@pytest.fixture(scope="session")
def ottla_sql_settings() -> Mapping[str, object]:
    """The settings of the tests' SQL server; a project overrides this fixture."""
    return {}


@pytest.fixture(scope="session")
def ottla_sql(
    kafka: Kafka,
    ottla_sql_settings: Mapping[str, object],
    tmp_path_factory: pytest.TempPathFactory,
    pytestconfig: pytest.Config,
) -> Iterator[Sql]:
    """A SQL server beside `kafka`, started when first asked for; its queries run in its own threads, without a JVM."""
    from ottla.testing.services import running_sql

    folder: Path = tmp_path_factory.mktemp("sql")
    with running_sql(
        kafka.bootstrap_servers, ottla_sql_settings, folder=folder, ready_seconds=_start_seconds(pytestconfig)
    ) as found:
        yield found
