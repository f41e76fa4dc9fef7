"""What every test shares: the skips that say why, and the closing line."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from tests import peer


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


def pytest_unconfigure(config: pytest.Config) -> None:
    """End with the plain line that scripts read."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(config, "workerinput"):
        return
    count = {name: len(reporter.stats.get(name, [])) for name in ("passed", "failed", "error", "skipped")}
    print(f"{count['passed']} passed, {count['failed'] + count['error']} failed, {count['skipped']} skipped")


settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("chance", deadline=None, max_examples=int(os.environ.get("EXAMPLES", "1000")))
settings.load_profile("chance" if "EXAMPLES" in os.environ else "steady")
"""The same examples in every `make test`, so that a change is judged by what it changes; new ones in `make fuzz`."""
