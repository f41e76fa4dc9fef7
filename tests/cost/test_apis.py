"""For every API of the broker: what its requests cost grows with them, and others have their turn in between.

A process of its own counts, since modules are rewritten as they are imported there.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def measure(*options: str) -> None:
    """Run the machine; what costs too much is the failure's text."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.cost", *options], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.timeout(600)
def test_four_times_the_elements_cost_four_times_as_much_in_the_newest_version_of_every_api() -> None:
    measure("--n", "32")


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_four_times_the_elements_cost_four_times_as_much_in_every_version_of_every_api() -> None:
    measure("--n", "128", "--all-versions")
