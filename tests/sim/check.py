"""Running a world in a test: it fails with what the world found and how to see it again."""

from __future__ import annotations

from tests.sim.kinds import run_world

__all__ = ["check"]


def check(name: str) -> None:
    """Run a world by its name; raises AssertionError where a promise was broken."""
    outcome = run_world(name)
    if outcome.error:
        events = "\n".join(outcome.recent)
        raise AssertionError(f"make sim SEED={name}, faults {outcome.faults}:\n{events}\n{outcome.error}")
