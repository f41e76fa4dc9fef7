"""The kinds of world, and how one is named: `cluster:17`, `quorum:3`, `broker:5`; a bare number is a `broker`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.sim.burst_broker import BurstBrokerWorld
from tests.sim.busy_broker import BusyBrokerWorld
from tests.sim.cluster.burst_world import BurstLonelyWorld, BurstWorld
from tests.sim.cluster.busy_world import BusyLonelyWorld, BusyWorld
from tests.sim.cluster.late_worlds import LateLonelyWorld, LateQuorumWorld, LateVotersWorld, LateWorld
from tests.sim.cluster.quorum_world import BusyQuorumWorld, BusyVotersWorld, QuorumWorld, VotersWorld
from tests.sim.cluster.world import ClusterWorld, LonelyWorld, run_cluster
from tests.sim.course import Outcome
from tests.sim.late_broker import LateBrokerWorld
from tests.sim.world import World, run_seed

__all__ = ["KEPT", "KINDS", "kept_seeds", "names_from", "run_world"]

KINDS = (
    "cluster4",
    "lonely4",
    "broker4",
    "quorum4",
    "voters4",
    "cluster3",
    "lonely3",
    "cluster2",
    "lonely2",
    "quorum2",
    "voters2",
    "broker2",
    "broker3",
    "cluster",
    "lonely",
    "quorum",
    "voters",
    "broker",
)
"""A number in a kind is its generation: what a seed draws is the same as long as its generation's code is."""
TURNS = (
    "cluster4",
    "broker4",
    "quorum4",
    "cluster4",
    "broker4",
    "lonely4",
    "cluster3",
    "broker4",
    "voters4",
    "lonely3",
    "broker3",
    "quorum2",
    "lonely2",
    "broker2",
)
"""Which kinds new seeds are of, in turn."""
KEPT = Path(__file__).with_name("seeds.txt")
"""Every world that ever failed, with what it found."""


CLUSTERS: dict[str, type[ClusterWorld]] = {
    "cluster4": LateWorld,
    "lonely4": LateLonelyWorld,
    "quorum4": LateQuorumWorld,
    "voters4": LateVotersWorld,
    "cluster3": BurstWorld,
    "lonely3": BurstLonelyWorld,
    "cluster2": BusyWorld,
    "lonely2": BusyLonelyWorld,
    "quorum2": BusyQuorumWorld,
    "voters2": BusyVotersWorld,
    "cluster": ClusterWorld,
    "lonely": LonelyWorld,
    "quorum": QuorumWorld,
    "voters": VotersWorld,
}
BROKERS = {
    "broker4": LateBrokerWorld,
    "broker2": BusyBrokerWorld,
    "broker3": BurstBrokerWorld,
    "broker": World,
    "": World,
}


def run_world(name: str) -> Outcome:
    """Run the world of this name to its end; raises ValueError for what is no name."""
    kind, _, number = name.rpartition(":")
    if kind in CLUSTERS:
        return run_cluster(int(number), kind=CLUSTERS[kind])
    if kind in BROKERS:
        return run_seed(int(number), kind=BROKERS[kind])
    raise ValueError(f"{name}: the kinds of world are {', '.join(KINDS)}")


def names_from(first: int, kind: str | None = None) -> Iterator[str]:
    """Yield names for ever, of one kind or of all in turn, counting up."""
    seed = first
    while True:
        for each in TURNS if kind is None else (kind,):
            yield f"{each}:{seed}"
            seed += 1


def kept_seeds() -> dict[str, str]:
    """Return the names of the worlds that failed once, each with what it found."""
    lines = (line.partition("#") for line in KEPT.read_text().splitlines())
    return {name.strip(): what.strip() for name, _, what in lines if name.strip()}
