"""What happens in a world of workers: requests that come alone or meet others, workers that come, go and are away meanwhile.

A story is what a cluster's users and machines may do, in an order and with pauses that the seed draws. Each world has a
theme, which says what happens often in it: where everything is equally rare, what takes three things at once never comes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.connect.storage import State
from tests.connect.machine.workers import Worker

if TYPE_CHECKING:
    from tests.connect.machine.world import World

__all__ = ["NAMES", "THEMES", "Theme", "happen"]

NAMES = ("a", "b")
Theme = Mapping[str, int]
"""How often each story comes, beside the others."""
THEMES: Mapping[str, Theme] = {
    "everything": {
        "request": 12,
        "two requests": 4,
        "pair": 8,
        "chain": 3,
        "meanwhile": 3,
        "away": 1,
        "join": 1,
        "leave": 1,
        "kill": 1,
        "freeze": 1,
        "cut off": 1,
    },
    "requests meet": {"request": 4, "two requests": 2, "pair": 4, "chain": 8, "join": 1, "leave": 1},
    "workers come and go": {"request": 3, "pair": 1, "meanwhile": 8, "join": 1, "leave": 1, "kill": 1},
    "leaders go": {"request": 3, "succession": 8, "join": 3},
    "workers are away": {"request": 3, "pair": 1, "away": 6, "freeze": 1, "cut off": 1, "join": 1},
}
ROUGH = ("workers are away",)
"""Themes whose worlds are always rough."""
REQUESTS = {
    "create": 2,
    "configure": 3,
    "patch": 1,
    "pause": 4,
    "resume": 4,
    "stop": 5,
    "delete": 1,
    "reset offsets": 6,
    "alter offsets": 2,
    "restart connector": 1,
    "restart all": 2,
    "restart task": 2,
    "status": 1,
    "offsets": 1,
}
BEGINNINGS = {"create": 1, "configure": 3, "patch": 1, "resume": 1, "restart all": 3, "restart task": 1, "delete": 1}
"""Requests that end and begin tasks."""
DECISIONS = {"patch": 6, "configure": 3, "create": 2, "delete": 3, "stop": 1, "resume": 2, "reset offsets": 1}
"""Requests that the leader decides by what it knows of the connector."""
CHANGES = {"configure": 8, "patch": 2, "pause": 1, "stop": 1, "delete": 1, "restart all": 1, "reset offsets": 1}
"""What is asked of a connector while a worker is away that has some of its tasks."""
PAIRS = (
    ("stop", "reset offsets"),
    ("stop", "reset offsets"),
    ("stop", "alter offsets"),
    ("configure", "pause"),
    ("restart task", "pause"),
    ("restart all", "pause"),
    ("restart task", "resume"),
    ("pause", "delete"),
    ("delete", "configure"),
    ("stop", "resume"),
    ("configure", "restart all"),
)
"""Requests of which the second comes while the first has its effects."""
CHAINS = (
    ("delete", "pause", "configure"),
    ("delete", "stop", "configure"),
    ("configure", "restart all", "delete"),
    ("restart all", "restart task", "stop"),
    ("restart all", "configure", "restart all"),
    ("stop", "resume", "restart all"),
    ("pause", "configure", "resume"),
    ("stop", "alter offsets", "resume"),
)
"""Requests of three people at once, in whatever order they come."""
GAPS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 1.0)
"""Seconds between two requests that meet."""
EFFECTS = (0.0, 0.01, 0.1, 0.3, 1.0, 3.0)
"""Seconds behind a request, in which it has its effects."""
SHORT, LONG = (0.5, 5.0, 12.0, 20.0), (12.0, 15.0, 20.0, 30.0)
"""Seconds for which a worker is frozen or cut off; behind 10 its group goes on without it."""
WORKERS_MAX = 3


async def happen(world: World) -> None:
    """Have the next thing happen that the world's seed draws, of its theme."""
    story = _drawn(world.rng, world.theme)
    if story in ("kill", "freeze", "cut off", "away") and not world.is_rough:
        story = "request"
    match story:
        case "join" | "leave" | "kill" | "freeze" | "cut off":
            _move(world, story, world.rng.choice(world.present()))
        case "pair":
            await _pair(world)
        case "two requests":
            name = _name(world.rng)
            for _ in range(2):
                _ask(world, _drawn(world.rng, REQUESTS), name)
                await asyncio.sleep(world.rng.choice((0.0, 0.001, 0.01, 0.1, 1.0)))
        case "chain":
            await _chain(world)
        case "meanwhile":
            await _meanwhile(world)
        case "succession":
            await _succession(world)
        case "away":
            await _away(world)
        case "request":
            asked = _ask(world, _drawn(world.rng, REQUESTS), _name(world.rng))
            if world.rng.random() < 0.5:
                await asyncio.wait([asked])


def _move(world: World, story: str, worker: Worker) -> None:
    """Have a worker come, or another one go or be away; not where too few or too many would be left."""
    others = len(world.present()) - 1
    match story:
        case "join" if others + 1 < WORKERS_MAX:
            world.join()
        case "leave" if others and worker.has_started and worker.is_well:
            world.leave(worker)
        case "kill" if others:
            world.kill(worker)
            if world.rng.random() < 0.7:
                world.join()
        case "freeze":
            world.freeze(worker, world.rng.choice(SHORT))
        case "cut off":
            world.cut_off(worker, world.rng.choice(SHORT))


async def _pair(world: World) -> None:
    rng = world.rng
    name, (one, other) = _name(rng), rng.choice(PAIRS)
    first = _ask(world, one, name)
    await asyncio.wait([first], timeout=rng.choice((0.001, 0.01, 0.1, 5.0)))
    await asyncio.sleep(rng.choice((0.0, 0.0, 0.01, 0.03, 0.1, 1.0)))
    _ask(world, other, name)


async def _chain(world: World) -> None:
    """Ask for three things of a connector, each while the one before has its effects, or has just had them."""
    rng = world.rng
    name, chain = _name(rng), rng.choice(CHAINS)
    for what in rng.sample(chain, len(chain)):
        asked = _ask(world, what, name)
        await asyncio.wait([asked], timeout=rng.choice((0.001, 0.001, 0.01, 0.1, 5.0)))
        await asyncio.sleep(rng.choice(GAPS))


async def _meanwhile(world: World) -> None:
    """Have a worker come or go while tasks end and begin, often the one that leads; then ask for something else."""
    rng, name = world.rng, _name(world.rng)
    for _ in range(rng.choice((1, 1, 2))):
        _ask(world, _drawn(rng, BEGINNINGS), name)
        await asyncio.sleep(rng.choice(EFFECTS))
    leaders = [each for each in world.present() if each.leads]
    worker = rng.choice(leaders if leaders and rng.random() < 0.6 else world.present())
    _move(world, rng.choice(("join", "leave", "leave", "kill") if world.is_rough else ("join", "leave")), worker)
    await asyncio.sleep(rng.choice(EFFECTS))
    if rng.random() < 0.7:
        _ask(world, _drawn(rng, REQUESTS), name)


async def _succession(world: World) -> None:
    """Have the leader go, in good order, between two requests about a connector; brokers may be slow meanwhile."""
    rng, name = world.rng, _name(world.rng)
    leaders = [each for each in world.present() if each.leads]
    if not leaders or len(world.present()) < 2:
        world.join()
        await asyncio.sleep(rng.choice((3.0, 5.0)))
        return
    if world.is_rough and rng.random() < 0.7:
        world.slow_down(rng.choice((5.0, 15.0)), rng.choice((1.0, 2.5, 6.0, 6.0)))
    _ask(world, _drawn(rng, DECISIONS), name)
    await asyncio.sleep(rng.choice((0.01, 0.03, 0.1, 0.3, 1.0)))
    _move(world, "leave", leaders[0])
    for _ in range(rng.choice((1, 2, 3))):
        await asyncio.sleep(rng.choice(EFFECTS))
        _ask(world, _drawn(rng, DECISIONS), name, leaders[0])
    await asyncio.sleep(rng.choice((1.0, 5.0, 10.0)))


async def _away(world: World) -> None:
    """Have a worker whose tasks run away for so long that others have them, and ask for something meanwhile."""
    rng = world.rng
    busy = [each for each in world.present() if State.RUNNING in each.running().values()]
    if not busy:
        await asyncio.wait([_ask(world, "configure", _name(rng))], timeout=5)
        await asyncio.wait([_ask(world, "resume", _name(rng))], timeout=5)
        await asyncio.sleep(3)
    worker = rng.choice(busy or world.present())
    names = sorted({task.connector for task in worker.running()}) or NAMES
    away = rng.choice((world.freeze, world.freeze, world.cut_off))(worker, rng.choice(LONG))
    await asyncio.sleep(rng.choice((0.0, 1.0, 5.0, 11.5)))
    for _ in range(rng.choice((1, 1, 2))):
        _ask(world, _drawn(rng, CHANGES), rng.choice(names), worker)
        await asyncio.sleep(rng.choice(EFFECTS))
    if rng.random() < 0.7:
        await asyncio.wait([away])


def _ask(world: World, what: str, name: str, away: Worker | None = None) -> asyncio.Task[None]:
    """Begin a request, to any worker but the one that is away."""
    return world.begin(world.request(what, name, away))


def _name(rng: random.Random) -> str:
    return NAMES[rng.random() < 0.25]


def _drawn(rng: random.Random, weights: Mapping[str, int]) -> str:
    return rng.choices(list(weights), list(weights.values()))[0]
