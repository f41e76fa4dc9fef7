"""What tests of the console share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.console.visits import running_browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for the tests of a module."""
    with running_browser() as found:
        yield found
