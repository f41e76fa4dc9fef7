"""Code that is broken on purpose is found out; all mutations run in `make mutations`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.mutations import MUTATIONS

ROOT = Path(__file__).resolve().parents[2]
QUICK = (
    "vote twice",
    "answer before the commit",
    "apply before the commit",
    "hide the timer while it ticks",
    "read a codec again",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_the_simulation_finds_code_that_is_broken_on_purpose(name: str) -> None:
    asked = (sys.executable, "-m", "tests.sim.mutations", name, "--enough", "1")
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_mutation_leaves_no_trace() -> None:
    from ottla.raft import elections

    before = elections.would_vote
    with MUTATIONS["vote twice"].applied():
        assert elections.would_vote is not before
    assert elections.would_vote is before
