"""`python -m tests.faults`: every story, every call, every kind of failure; `--only produce:14:ENOSPC` runs one again.

It says every ten seconds how far it is. The whole takes about twenty minutes on two processors that have nothing else to do.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.faults.broker_runner import NODE_STORIES, broker_cases_of, play_broker, run_broker_case
from tests.faults.case import Case
from tests.faults.forks import Forks, explore
from tests.faults.log_stories import STORIES
from tests.faults.runner import cases_of, play_log, run_case
from tests.sim.pool import processors

__all__ = ["main"]

SHOWN_MAX = 12
"""Failures of a story that are shown whole."""
PROGRESS_S = 10.0


def all_cases(name: str) -> list[Case]:
    """Return every case of a story, of a log or of a broker."""
    return broker_cases_of(name) if name in NODE_STORIES else cases_of(name)


class Progress:
    """Says how far it is."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.failed = total, 0, 0
        self._began = self._said = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._began

    def ended(self, story: str, name: str, error: str, *, shown: bool) -> None:
        """Note a case that has ended; a power loss has several ends, of which only failures count."""
        self.failed += bool(error)
        if error and shown:
            print(f"{name or story}: {error}\n    again: make faults CASE={name}", flush=True)
        if time.monotonic() - self._said > PROGRESS_S:
            self._said = time.monotonic()
            print(f"... {self.done} of {self.total} cases, in {story}, {self.elapsed_s:.0f} s", flush=True)


def run_story(name: str, cases: list[Case], progress: Progress) -> None:
    """Run all cases of a story, on every processor, and say what broke."""
    began, before, at_first = time.monotonic(), progress.failed, progress.done

    def play(forks: Forks) -> str:
        return (play_broker if name in NODE_STORIES else play_log)(name, forks)

    ended: set[str] = set()
    for case, error in explore(cases, play, processors()):
        ended.add(case)
        progress.done = at_first + len(ended)
        progress.ended(name, case, error, shown=progress.failed - before < SHOWN_MAX)
    missing = {each.name for each in cases} - ended
    if missing:
        progress.ended(name, "", f"{len(missing)} cases did not end, such as {min(missing)}", shown=True)
    progress.done = at_first + len(cases)
    failed = progress.failed - before
    print(f"{name}: {len(cases)} cases, {failed} failed, {time.monotonic() - began:.1f} s", flush=True)


def run_alone(name: str) -> int:
    """Run one case in a play of its own; returns 1 where a promise was broken or there is no such case."""
    story = name.partition(":")[0]
    if story not in STORIES and story not in NODE_STORIES:
        print(f"There is no story {story}.")
        return 1
    for case in all_cases(story):
        if case.name == name:
            error = run_broker_case(case) if story in NODE_STORIES else run_case(case)
            print(f"{case}: {error or 'nothing broke'}")
            return 1 if error else 0
    print(f"There is no case {name}.")
    return 1


def main() -> int:
    """Run the cases; returns 1 where a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--story", action="append", help="these stories only")
    parser.add_argument("--only", help="this case alone, such as produce:14:ENOSPC")
    given = parser.parse_args()
    if given.only:
        return run_alone(given.only)
    known = [*STORIES, *NODE_STORIES]
    if unknown := sorted(set(given.story or ()) - set(known)):
        parser.error(f"no such story: {', '.join(unknown)}")
    found = {each: all_cases(each) for each in given.story or known}
    progress = Progress(sum(len(each) for each in found.values()))
    print(f"{len(found)} stories, {progress.total} cases, on {processors()} processors", flush=True)
    for name, cases in found.items():
        run_story(name, cases, progress)
    print(f"{len(found)} stories, {progress.total} cases, {progress.failed} failed, {progress.elapsed_s:.0f} s")
    return 1 if progress.failed or not progress.total else 0


if __name__ == "__main__":
    sys.exit(main())
