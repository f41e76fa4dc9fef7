"""The kinds of world, and how one is named: `cluster:17`, `quorum:3`, `broker:5`; a bare number is a `broker`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.sim.cluster.quorum_world import QuorumWorld, VotersWorld
from tests.sim.cluster.world import ClusterWorld, LonelyWorld, run_cluster
from tests.sim.world import Outcome, run_seed

__all__ = ["KEPT", "KINDS", "kept_seeds", "names_from", "run_world"]

KINDS = ("cluster", "lonely", "quorum", "voters", "broker")
TURNS = ("cluster", "cluster", "quorum", "cluster", "lonely", "voters", "broker")
"""Which kinds new seeds are of, in turn."""
KEPT = Path(__file__).with_name("seeds.txt")
"""Every world that ever failed, with what it found."""


def run_world(name: str) -> Outcome:
    """Run the world of this name to its end; raises ValueError for what is no name."""
    kind, _, number = name.rpartition(":")
    seed = int(number)
    match kind:
        case "" | "broker":
            return run_seed(seed)
        case "quorum":
            return run_cluster(seed, kind=QuorumWorld)
        case "lonely":
            return run_cluster(seed, kind=LonelyWorld)
        case "voters":
            return run_cluster(seed, kind=VotersWorld)
        case "cluster":
            return run_cluster(seed, kind=ClusterWorld)
        case _:
            raise ValueError(f"{name}: the kinds of world are {', '.join(KINDS)}")


def names_from(first: int, kind: str | None = None) -> Iterator[str]:
    """Yield names for ever, of one kind or of all in turn, counting up."""
    seed = first
    while True:
        for each in TURNS if kind is None else (kind,):
            yield f"{each}:{seed}"
            seed += 1


def kept_seeds() -> list[str]:
    """Return the names of the worlds that failed once."""
    lines = (line.partition("#")[0].strip() for line in KEPT.read_text().splitlines())
    return [line for line in lines if line]
