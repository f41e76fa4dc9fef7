"""Clusters and controllers of the fourth generation: what is ready runs in an order of the seed's choice, and late."""

from __future__ import annotations

from random import Random

from tests.schedules import Schedule
from tests.sim.cluster.burst_world import BurstLonelyWorld, BurstWorld
from tests.sim.cluster.quorum_world import BusyQuorumWorld, BusyVotersWorld
from tests.sim.cluster.world import ClusterWorld

__all__ = ["LateLonelyWorld", "LateQuorumWorld", "LateVotersWorld", "LateWorld"]


class _Late(ClusterWorld):
    """Whatever the world, its nodes' tasks come late."""

    def schedule(self, seed: int) -> Schedule | None:
        """Draw when what is ready runs."""
        return Schedule.drawn(Random(f"{seed} schedule"))


class LateWorld(_Late, BurstWorld):
    """A cluster of the fourth generation."""


class LateLonelyWorld(_Late, BurstLonelyWorld):
    """The same where leaders are left alone."""


class LateQuorumWorld(_Late, BusyQuorumWorld):
    """Controllers of the fourth generation."""


class LateVotersWorld(_Late, BusyVotersWorld):
    """The same while voters come and go."""
