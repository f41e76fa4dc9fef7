"""The ways in which a cluster is broken. Each breaks something, waits a little, and mends it again; a seed chooses."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.chaos.moves import COORDINATORS, move_leaders
from tests.chaos.world import World

__all__ = ["FAULTS", "Fault", "available"]

Say = Callable[[str], None]


@dataclass(frozen=True)
class Fault:
    """One kind of fault: `run(world, topic, rng, say)` returns when everything runs again."""

    name: str
    run: Callable[[World, str, random.Random, Say], None]
    needs: str = ""
    """`network` or `disk` where the machine must allow something."""


def _leader(world: World, topic: str, rng: random.Random) -> int:
    """Return a node that leads something: most faults hurt most there."""
    return world.leader_of(topic, rng.randrange(6)) or rng.choice(world.nodes)


def _back(world: World) -> None:
    world.revive()
    world.await_ready()


def kill_leader(world: World, topic: str, rng: random.Random, say: Say) -> None:
    """`kill -9` for the leader of a partition."""
    node = _leader(world, topic, rng)
    say(f"kill -9 of node {node}, which leads partitions")
    world.kill(node)
    time.sleep(rng.uniform(1, 6))
    _back(world)


def kill_controller(world: World, topic: str, rng: random.Random, say: Say) -> None:
    """`kill -9` for the leader of the metadata quorum."""
    node = world.controller() or rng.choice(world.nodes)
    say(f"kill -9 of node {node}, the active controller")
    world.kill(node)
    time.sleep(rng.uniform(1, 6))
    _back(world)


def kill_all(world: World, topic: str, rng: random.Random, say: Say) -> None:
    """`kill -9` for every node at once."""
    say("kill -9 of every node")
    for node in world.nodes:
        world.kill(node)
    time.sleep(rng.uniform(0, 2))
    _back(world)


def pause(world: World, topic: str, rng: random.Random, say: Say) -> None:
    """SIGSTOP, shorter or longer than a session, and SIGCONT."""
    node = rng.choice([_leader(world, topic, rng), world.controller() or 1])
    seconds = rng.choice([rng.uniform(0.5, 3), rng.uniform(10, 15)])
    say(f"pause of node {node} for {seconds:.1f} s")
    world.pause(node)
    time.sleep(seconds)
    _back(world)


def stop(world: World, topic: str, rng: random.Random, say: Say) -> None:
    """A clean stop, and a start."""
    node = _leader(world, topic, rng)
    say(f"clean stop of node {node}")
    world.stop(node)
    time.sleep(rng.uniform(0, 3))
    _back(world)


def rolling_restart(world: World, topic: str, rng: random.Random, say: Say) -> None:
    """Every node in turn stops cleanly and starts again, once the one before it is in sync."""
    say("rolling restart")
    for node in world.nodes:
        world.stop(node)
        world.start(node)
        world.await_ready()
        world.await_full([topic])


def moves(world: World, topic: str, rng: random.Random, say: Say) -> None:
    """Leaders and copies move, of the round's topics and of those that coordinators keep; no node is broken."""
    topics = [topic, topic.replace("plain", "txn"), *COORDINATORS]
    seconds = rng.uniform(5, 10)
    say(f"leaders and copies move for {seconds:.1f} s")
    say(f"{move_leaders(world.bootstrap, topics, world.nodes, rng, seconds)} partitions were moved")
    world.await_full(topics)


def isolate(world: World, topic: str, rng: random.Random, say: Say) -> None:
    """A node and the others do not hear each other; clients reach all of them."""
    assert world.network is not None
    node = rng.choice([_leader(world, topic, rng), world.controller() or 1])
    seconds = rng.uniform(3, 15)
    say(f"node {node} cut off from the others for {seconds:.1f} s")
    world.network.isolate(node, world.nodes)
    time.sleep(seconds)
    _back(world)


def one_way(world: World, topic: str, rng: random.Random, say: Say) -> None:
    """What one node sends to another is lost, or to all others; what they send arrives."""
    assert world.network is not None
    node = rng.choice([_leader(world, topic, rng), world.controller() or 1])
    others = [each for each in world.nodes if each != node]
    lost = rng.choice([others, [rng.choice(others)]])
    seconds = rng.uniform(3, 15)
    say(f"node {node} is not heard by {lost} for {seconds:.1f} s")
    for other in lost:
        world.network.cut(node, other)
    time.sleep(seconds)
    _back(world)


def bridge(world: World, topic: str, rng: random.Random, say: Say) -> None:
    """Two nodes do not hear each other, but both hear the third."""
    assert world.network is not None
    one, two = rng.sample(world.nodes, 2)
    seconds = rng.uniform(3, 15)
    say(f"nodes {one} and {two} cut off from each other for {seconds:.1f} s")
    world.network.isolate(one, [two])
    time.sleep(seconds)
    _back(world)


def full_disk(world: World, topic: str, rng: random.Random, say: Say) -> None:
    """A node's disk is full for a while; whoever runs it makes room and starts it again."""
    node = world.small_disk
    assert node is not None
    say(f"full disk under node {node}")
    with world.full_disk():
        time.sleep(rng.uniform(4, 8))
    if world.runs(node):
        world.stop(node)
    _back(world)


FAULTS = (
    Fault("kill leader", kill_leader),
    Fault("pause", pause),
    Fault("isolate", isolate, "network"),
    Fault("rolling restart", rolling_restart),
    Fault("kill controller", kill_controller),
    Fault("one way", one_way, "network"),
    Fault("full disk", full_disk, "disk"),
    Fault("stop", stop),
    Fault("moves", moves),
    Fault("bridge", bridge, "network"),
    Fault("kill all", kill_all),
)
"""In the order in which rounds make sure that each kind has its turn."""


def available(*, network: bool, disk: bool) -> list[Fault]:
    """Return what can be done on this machine."""
    return [each for each in FAULTS if {"network": network, "disk": disk}.get(each.needs, True)]
