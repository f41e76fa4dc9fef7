"""What every test shares: the skips that say why, the seed of property tests, and the closing line."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import ExitStack
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests import hangs, late_loop, minutes, peer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest_plugins = ["pytester"]
"""Runs of pytest in folders of their own, for `tests/testing`."""
SPARK_SECONDS_MAX = 600
"""How long a test on Spark may take: the first one starts a JVM, and each may wait for Python workers on a busy machine."""
SEED = "HYPOTHESIS_SEED"
"""The environment's variable with the seed of property tests; `--hypothesis-seed` goes before it."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """End a test that hangs beyond its timeout, as a clean-up does that waits for ever, and say where it hung.

    Loops of services' tests run what is ready in an order that the run's seed draws.
    """
    marker = item.get_closest_marker("timeout")
    limit = float(marker.args[0] if marker and marker.args else item.config.getini("timeout") or 0)
    with ExitStack() as around:
        if limit:
            around.enter_context(hangs.ended_after(limit, item.nodeid))
        if late_loop.comes_late(item):
            around.enter_context(late_loop.late_loops(f"{item.config.option.hypothesis_seed} {item.nodeid}"))
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed from which property tests draw, before hypothesis reads it and workers are started with it."""
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = os.environ.get(SEED) or str(SystemRandom().getrandbits(32))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Deal whole files out to processes, and those on Spark to one of them."""
    if config.getoption("dist") != "loadfile":
        return None
    from tests.dealing import ByFiles

    return ByFiles(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what each folder has cost, and name the seed, with which a run draws the same examples again."""
    reports = [each for found in terminalreporter.stats.values() for each in found if hasattr(each, "duration")]
    if len(reports) > minutes.TESTS_MIN:
        processes = config.getoption("numprocesses", None) or 1
        for line in minutes.lines(minutes.minutes_of(((each.nodeid, each.duration) for each in reports), processes)):
            terminalreporter.write_line(line)
    terminalreporter.write_line(
        "property tests drew their examples, and loops their orders, with "
        f"--hypothesis-seed={config.option.hypothesis_seed}"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what lacks the peer or a Java, each with a line that says so."""
    no_peer = peer.missing()
    no_java: str | None = None
    if any(item.get_closest_marker("spark") for item in items):
        from ottla.spark import java_missing

        no_java = java_missing()
    for item in items:
        for name, reason in (("peer", no_peer), ("spark", no_java)):
            if not item.get_closest_marker(name):
                continue
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))
        if item.get_closest_marker("spark") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SPARK_SECONDS_MAX))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of this process, which Spark itself has no second of (`tests/spark_session.py`)."""
    from tests.spark_session import for_all_tests

    with for_all_tests(tmp_path_factory.mktemp("spark")) as session:
        yield session


def pytest_collection_finish(session: pytest.Session) -> None:
    """Look no more through what is collected: simulations collect garbage after each world, and it cost them a second."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    """End with the plain line that scripts read."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(config, "workerinput"):
        return
    count = {name: len(reporter.stats.get(name, [])) for name in ("passed", "failed", "error", "skipped")}
    print(f"{count['passed']} passed, {count['failed'] + count['error']} failed, {count['skipped']} skipped")


EXAMPLES = "EXAMPLES"
"""How many examples `make fuzz` asks for, where a run draws fifty new ones; a test that says how many keeps to that."""
settings.register_profile(
    "fresh",
    derandomize=False,
    deadline=None,
    database=None,
    print_blob=True,
    max_examples=int(os.environ.get(EXAMPLES, "50")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fresh")
"""New examples in every run, in CI too, from the seed that the run's last lines name; everything is said explicitly,
because hypothesis has other defaults where it sees that it runs in CI. A failure prints the example, and a blob for
`@reproduce_failure`. How long an example takes on a busy machine is nobody's fault (`too_slow`). A test that is to see
the same examples always says `derandomize=True` itself."""
