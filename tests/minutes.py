"""How long the tests of each folder take, beside what they may take: `make test` has room for what is still to come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

__all__ = ["BUDGET", "BUDGET_MAX", "TESTS_MIN", "lines", "minutes_of"]

BUDGET: Mapping[str, float] = {
    "streams": 2.5,
    "mirror": 0.4,
    "sim": 1.2,
    "connect": 1.1,
    "spark": 0.9,
    "cluster": 0.9,
    "cli": 1.3,
    "log": 0.7,
    "faults": 0.3,
    "broker": 1.6,
    "crash": 0.3,
    "connectors": 3.2,
    "groups": 0.1,
    "transactions": 0.4,
    "raft": 0.1,
    "examples": 0.5,
    "security": 0.1,
    "registry": 0.4,
    "schemas": 0.2,
    "serdes": 0.3,
    "sql": 0.2,
    "sql_server": 0.9,
    "console": 0.3,
    "others": 3.3,
}
"""Minutes of a run on two processors that does nothing else. What needs more goes to `make compat` or `make nightly`."""
BUDGET_MAX = 21.2
TESTS_MIN = 4000
"""A run of fewer tests is of somebody who looks at a part."""


def minutes_of(durations: Iterable[tuple[str, float]], processes: int) -> dict[str, float]:
    """Return each folder's share of the run in minutes, from tests' names and the seconds of each, so many at once."""
    found: defaultdict[str, float] = defaultdict(float)
    for name, seconds in durations:
        folder = name.split("/")[1] if name.startswith("tests/") else ""
        found[folder if folder in BUDGET else "others"] += seconds / 60 / processes
    return dict(found)


def lines(found: Mapping[str, float]) -> list[str]:
    """Return a line for each folder, and one for all."""
    said = [
        f"{folder:12} {found.get(folder, 0):5.1f} of {most:4.1f}{'  OVER' if found.get(folder, 0) > most else ''}"
        for folder, most in BUDGET.items()
    ]
    return ["minutes of the run, and the budget on two processors (tests/minutes.py):", *said, _sum(found)]


def _sum(found: Mapping[str, float]) -> str:
    return f"{'all':12} {sum(found.values()):5.1f} of {sum(BUDGET.values()):4.1f}, at most {BUDGET_MAX:g}"
