"""Plays a story of a log once to count its calls, and again for every call and every way in which it can fail."""

from __future__ import annotations

from collections.abc import Sequence
from traceback import format_exc

from tests.faults.case import Case, cases_of_calls, sampled
from tests.faults.forks import Forks
from tests.faults.log_stories import STORIES, Story
from tests.faults.stage import AFTER_POWER, Over, Stage
from tests.sim.process import Crash

__all__ = ["broken_of", "cases_of", "play_log", "run_case"]

OF_EACH_KIND = 2
"""Calls that fail in each way in a run that cannot pay for all."""


def cases_of(name: str) -> list[Case]:
    """Return every case of a story; raises AssertionError where it breaks with nothing failing."""
    stage, error = _played(STORIES[name])
    if error:
        raise AssertionError(f"{name} breaks with nothing failing: {error}")
    # what a wrong bit costs is judged with a broker, see `broker_stories`
    return [each for each in cases_of_calls(name, stage.faults.calls) if not each.kind.startswith("rot")]


def run_case(case: Case, powers: Sequence[str] = tuple(AFTER_POWER)) -> str:
    """Play one case; return what broke, or nothing. `powers` are the things that a power loss may leave."""
    stage, error = _played(STORIES[case.story], case.number, case.kind, powers)
    if not error and stage.failed is None:
        return "the call does not come again: the story is not the same twice"
    return error


def broken_of(name: str) -> list[str]:
    """Return what breaks of a story's sample; a power loss leaves one of the things that it may, not always the same."""
    powers = tuple(AFTER_POWER)
    found = []
    for at, case in enumerate(sampled(cases_of(name), of_each_kind=OF_EACH_KIND)):
        if error := run_case(case, [powers[at % len(powers)]]):
            found.append(f"{case}: {error}")
    return found


def play_log(name: str, forks: Forks) -> str:
    """Play a story that forks at its calls; return what broke."""
    return _played(STORIES[name], forks=forks)[1]


def _played(
    story: Story, at: int = 0, kind: str = "", powers: Sequence[str] = tuple(AFTER_POWER), forks: Forks | None = None
) -> tuple[Stage, str]:
    stage = Stage(at=at, kind=kind, paths=story.paths)
    stage.faults.kind_at = None if forks is None else forks.kind_at
    try:
        story.prepare(stage)
        stage.watch()
        try:
            story.play(stage)
            stage.faults.on = False
            stage.check("")
            stage.look_at_copies("at the end")
            stage.end_at_last()
        except Over:
            stage.ended("after the failure", kill=True, powers=("nothing unsynced",))
        except Crash:
            has_power = not stage.faults.kind.startswith("power")
            stage.ended("crashed", kill=has_power, powers=() if has_power else tuple(powers))
    except (Exception, Crash) as error:
        return stage, _said(error)
    return stage, ""


def _said(error: BaseException) -> str:
    return f"{error}" if isinstance(error, AssertionError) and str(error) else format_exc()
