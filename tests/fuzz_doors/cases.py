"""One case: a text of a kind, damaged by a seed, with a bound for the work and the memory that its reading takes."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import dataclass
from functools import cache
from random import Random

from tests.fuzz_doors.damage import damaged
from tests.fuzz_doors.doors import DOORS, read_or_refused
from tests.fuzz_doors.work import TooMuchWork, work_of

__all__ = ["Case", "checked"]

SIZE_MAX = 60
WORK_AT_ALL, WORK_OF_A_LETTER = 400_000, 4_000
BYTES_AT_ALL, BYTES_OF_A_LETTER = 8 << 20, 20_000


@dataclass(frozen=True)
class Case:
    """A door, a kind of what may come, and a seed."""

    door: str
    kind: str
    seed: int

    def __str__(self) -> str:
        return f"{self.door}:{self.kind}:{self.seed}"

    @classmethod
    def of(cls, text: str) -> Case:
        """Read what `str` gives."""
        door, kind, seed = text.split(":")
        return cls(door, kind, int(seed))

    def text(self) -> str:
        """Return what comes."""
        rng = Random(self.seed)
        return damaged(rng, DOORS[self.door].kinds[self.kind](1 + rng.randrange(SIZE_MAX)))


@cache
def _warm(name: str) -> None:
    """Have a door import and work out what it does once."""
    for make in DOORS[name].kinds.values():
        for text in (make(2), make(2)[:-1]):
            read_or_refused(DOORS[name], text)


def checked(case: Case) -> str | None:
    """Return what is wrong with how a case is read, None where it is read or refused within the bounds."""
    door, text = DOORS[case.door], case.text()
    _warm(case.door)
    gc.collect(0)
    tracemalloc.start()
    try:
        work_of(lambda: read_or_refused(door, text), WORK_AT_ALL + WORK_OF_A_LETTER * len(text))
        peak = tracemalloc.get_traced_memory()[1]
    except TooMuchWork as error:
        return f"{len(text)} letters: {error}"
    except Exception as error:  # whatever a door lets through is a mistake of ours, and is told as one
        return f"{type(error).__name__}: {error}"
    finally:
        tracemalloc.stop()
    most = BYTES_AT_ALL + BYTES_OF_A_LETTER * len(text)
    return None if peak <= most else f"{len(text)} letters: {peak} bytes of memory"
