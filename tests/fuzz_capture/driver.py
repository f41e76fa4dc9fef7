"""A seed's history: themes are drawn, statements made from the tables as they are, and a fault is shrunk."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from tests.fuzz_capture import mariadb_words, postgresql_words
from tests.fuzz_capture.history import History, Step, shrunk
from tests.fuzz_capture.machine import KILLS, Fault, Side, replayed, running

__all__ = ["WORDS", "Found", "tried"]

WORDS: Mapping[str, ModuleType] = {"mariadb": mariadb_words, "postgresql": postgresql_words}
ROUNDS_MAX = 14
BEGUN_SHARE = 0.85
"""Of the histories whose first snapshot is complete before anything else comes."""
SHRINK_SECONDS = 90.0


@dataclass(frozen=True)
class Found:
    """A fault, and the fewest steps that show it."""

    seed: int
    themes: Sequence[str]
    said: str
    history: History

    def __str__(self) -> str:
        return f"seed {self.seed} (themes {','.join(self.themes)}): {self.said}\n{self.history}"


def _other(chance: random.Random, names: Sequence[str], *, restarts: bool) -> Step | None:
    draw = chance.random()
    if draw < 0.25:
        return Step("poll")
    if draw < 0.34:
        return Step("kill", chance.choice(KILLS))
    if draw < 0.46:
        return Step("check")
    if draw < 0.53 and names:
        return Step("snapshot", ",".join(chance.sample(names, 1)))
    if draw < 0.56:
        return Step("retain")
    if draw < 0.58 and restarts:
        return Step("restart", chance.choice(["hard", "soft"]))
    return None


def tried(
    side: Side, seed: int, *, themes: Sequence[str] = (), restarts: bool = False, shrink_seconds: float = SHRINK_SECONDS
) -> Found | None:
    """Do the history of a seed; returns its fault, shrunk, or None."""
    words = WORDS[side.name]
    chance = random.Random(seed)
    drawn = chance.sample(sorted(words.THEMES), chance.randint(1, 4))
    chosen = list(themes) or drawn
    more = words.settings(chance)
    folder = Path(tempfile.mkdtemp(prefix="ottla-fuzz-"))
    steps: list[Step] = []
    begin = 0
    try:
        with running(side, folder / "first", more) as run:
            try:
                begin = _played(run, words, chance, chosen, restarts=restarts)
                run.finish()
                return None
            except Fault as fault:
                said = str(fault)
            finally:
                steps, begin = list(run.done), run.begin_at
        history, turn = History(tuple(steps), begin), iter(range(1_000_000))
        kind = _kind(said)

        def fails(each: History) -> bool:
            again = replayed(side, each, folder / str(next(turn)), more)
            return again is not None and _kind(again) == kind

        if shrink_seconds:
            history = shrunk(history, fails, seconds=shrink_seconds)
            said = replayed(side, history, folder / "last", more) or said
        return Found(seed, chosen, said, history)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _kind(said: str) -> str:
    """Whether a capture has ended, or tells something else: shrinking keeps to one of them."""
    return "ended" if "ended the capture" in said else "differs"


def _played(run, words, chance, chosen, *, restarts) -> int:  # type: ignore[no-untyped-def]
    side = run.side
    for each in words.beginnings(chance):
        run.take(Step("sql", each))
    tables = side.tables(run.database)
    for _ in range(chance.randint(0, 4)):
        for each in words.row_statement(chance, tables):
            run.take(Step("sql", each))
    if chance.random() < 0.3:
        _made(run, words, chance, chosen)
    run.begin()
    if chance.random() < BEGUN_SHARE:
        run.take(Step("check"))
    for _ in range(chance.randint(4, ROUNDS_MAX)):
        _made(run, words, chance, chosen)
        names = [each.name for each in side.tables(run.database) if each.name not in ("ends_", "signals")]
        if (other := _other(chance, names, restarts=restarts)) is not None:
            run.take(other)
    return run.begin_at


def _made(run, words, chance, chosen) -> None:  # type: ignore[no-untyped-def]
    tables = run.side.tables(run.database)
    draw = chance.random()
    if draw < 0.4:
        theme = words.row_statement
    elif draw < 0.5:
        theme = words.touch
    else:
        theme = words.THEMES[chance.choice(chosen)]
    session = chance.choice("aaab")
    for each in theme(chance, tables):
        run.take(Step("sql", each, session))
