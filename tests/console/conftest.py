"""What tests of the console share, and which of them `make test` has time for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.console.visits import running_browser

HERE = Path(__file__).parent
STARTED = frozenset({"server", "console", "browser", "sql", "worker", "with_tokens", "bootstrap"})
"""Fixtures that start processes: seconds for each module, before its first test."""
QUICK = frozenset({"test_alerts", "test_console", "test_logins", "test_pages", "test_tails"})
"""Modules that start some in `make test` too: alerts, searches and plans, logins, pages in a browser."""


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what starts processes outside of a few modules: `make test-console` runs it."""
    for item in items:
        if (
            item.path.parent == HERE
            and item.path.stem not in QUICK
            and STARTED & set(getattr(item, "fixturenames", ()))
        ):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for the tests of a module."""
    with running_browser() as found:
        yield found
