"""Plays a story of a broker once to count its calls, and again for every call that fails."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from traceback import format_exc

from tests.faults.broker_stage import BrokerStage, Ended
from tests.faults.broker_stories import BROKER_STORIES
from tests.faults.case import Case, cases_of_calls, sampled
from tests.faults.follower_stories import FOLLOWER_STORIES
from tests.faults.forks import Forks
from tests.faults.said import Broken
from tests.faults.stage import AFTER_POWER
from tests.sim.process import Crash

__all__ = ["NODE_STORIES", "broken_of_broker", "broker_cases_of", "listening", "play_broker", "run_broker_case"]


NODE_STORIES = BROKER_STORIES | FOLLOWER_STORIES
"""The stories of a whole node: one that is alone, and one that follows."""


def broker_cases_of(name: str) -> list[Case]:
    """Return every case of a story; raises AssertionError where it breaks with nothing failing."""
    stage, error = _played(name)
    if error:
        raise AssertionError(f"{name} breaks with nothing failing: {error}")
    return cases_of_calls(name, stage.faults.calls)


def run_broker_case(case: Case, powers: Sequence[str] = tuple(AFTER_POWER)) -> str:
    """Play one case; return what broke, or nothing. `powers` are the things that a power loss may leave."""
    for power in powers if case.kind.startswith("power") else ("",):
        stage, error = _played(case.story, case.number, case.kind, power)
        if not error and stage.faults.failed is None:
            error = "the call does not come again: the story is not the same twice"
        if error:
            return f"{error} ({power})" if power else error
    return ""


def broken_of_broker(name: str) -> list[str]:
    """Return what breaks of a story's sample: one call for each way to fail, one remainder for each power loss."""
    powers = tuple(AFTER_POWER)
    found = []
    for at, case in enumerate(sampled(broker_cases_of(name), of_each_kind=1)):
        if error := run_broker_case(case, [powers[at % len(powers)]]):
            found.append(f"{case}: {error}")
    return found


def play_broker(name: str, forks: Forks) -> str:
    """Play a story that forks at its calls; return what broke."""
    return _played(name, forks=forks)[1]


def _played(
    name: str, at: int = 0, kind: str = "", power: str = "", forks: Forks | None = None
) -> tuple[BrokerStage, str]:
    story = NODE_STORIES[name]
    stage = story.stage(at=at, kind=kind, power=AFTER_POWER[power] if power else None, settings=story.settings)
    if forks is not None:
        stage.faults.kind_at, stage.is_new = forks.kind_at, forks.is_new
    stage.is_starting = story.is_start
    hook = sys.unraisablehook
    sys.unraisablehook = lambda raised: None if isinstance(raised.exc_value, Crash) else hook(raised)
    error = ""

    async def live() -> None:
        try:
            await story.prepare(stage)
            stage.faults.on = True
            try:
                await story.play(stage)
            except Crash:
                raise Ended("killed") from None
            stage.faults.on = False
            await stage.judge()
        except Ended as ended:
            stage.faults.on = False
            is_end = story.is_stop or stage.faults.kind.startswith(("kill", "power"))
            if not is_end and not stage.scope().node and not story.is_start:
                raise Broken(f"{ended}, for a failure that may cost {stage.scope()}") from ended
        if forks is not None and stage.faults.kind.startswith("power"):
            stage.power = AFTER_POWER[forks.one_of(AFTER_POWER)]
        await stage.look_again()

    asyncio.set_event_loop(None)
    try:
        with listening(stage.heard):
            stage.loop.run_until_complete(live())
    except (Exception, Crash) as found:
        error = str(found) if isinstance(found, Broken) else format_exc()
    finally:
        stage.bury()
        gc.collect(0)
        sys.unraisablehook = hook
    return stage, error


@contextmanager
def listening(heard: list[str]) -> Iterator[None]:
    """Take down the errors that are logged, instead of printing them."""
    logger = logging.getLogger("ottla")
    before = logger.level, logger.propagate
    ear = logging.Handler(logging.ERROR)
    ear.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    logger.addHandler(ear)
    try:
        yield
    finally:
        logger.removeHandler(ear)
        logger.setLevel(before[0])
        logger.propagate = before[1]
