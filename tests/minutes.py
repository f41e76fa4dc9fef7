"""How long the tests of each folder take, beside what they may take: `make test` has room for what is still to come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

__all__ = ["BUDGET", "BUDGET_MAX", "TESTS_MIN", "lines", "minutes_of"]

BUDGET: Mapping[str, float] = {
    "streams": 2.6,
    "sim": 1.2,
    "connect": 1.3,
    "spark": 1.2,
    "cluster": 1.3,
    "cli": 1.2,
    "log": 0.6,
    "faults": 0.3,
    "broker": 2.1,
    "crash": 0.4,
    "connectors": 1.0,
    "groups": 0.3,
    "transactions": 0.5,
    "raft": 0.1,
    "examples": 0.7,
    "security": 0.3,
    "registry": 0.4,
    "schemas": 0.2,
    "serdes": 0.2,
    "sql": 1.0,
    "sql_server": 1.4,
    "console": 0.5,
    "others": 1.3,
}
"""Minutes of a run on two processors that does nothing else. What needs more goes to `make compat` or `make nightly`."""
BUDGET_MAX = 25.0
PROCESSORS = 2
TESTS_MIN = 4000
"""A run of fewer tests is of somebody who looks at a part."""


def minutes_of(durations: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the minutes of each folder of the budget, from tests' names and the seconds that each took."""
    found: Counter[str] = Counter()
    for name, seconds in durations:
        folder = name.split("/")[1] if name.startswith("tests/") else ""
        found[folder if folder in BUDGET else "others"] += seconds / 60 / PROCESSORS
    return dict(found)


def lines(found: Mapping[str, float]) -> list[str]:
    """Return a line for each folder, and one for all."""
    said = [
        f"{folder:12} {found.get(folder, 0):5.1f} of {most:4.1f}{'  OVER' if found.get(folder, 0) > most else ''}"
        for folder, most in BUDGET.items()
    ]
    return ["minutes of two processors, and the budget (tests/minutes.py):", *said, _sum(found)]


def _sum(found: Mapping[str, float]) -> str:
    return f"{'all':12} {sum(found.values()):5.1f} of {sum(BUDGET.values()):4.1f}, at most {BUDGET_MAX:g}"
