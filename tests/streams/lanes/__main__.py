"""`SECONDS=60 SEED=1 python -m tests.streams.lanes`: worlds of lanes, one after another, until the time is over.

Without SECONDS the world of SEED alone; without SEED fresh ones. `MUTATIONS=1` looks for each fault that is put back, from
SEED on. Each core has worlds of its own, or as many processes as WORKERS says.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import repeat

from tests.streams.lanes.mutations import FIRST, MUTATIONS, WORLDS, found_in
from tests.streams.lanes.world import run_world


def main() -> None:
    """Run worlds; exits with an error where one fails, or a fault is not found."""
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets are walked in the same order every time
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, "-m", "tests.streams.lanes"], environment)
    if os.environ.get("MUTATIONS"):
        _mutations()
        return
    seed, seconds = os.environ.get("SEED"), float(os.environ.get("SECONDS") or 0)
    first = int(seed) if seed else time.time_ns() // 1_000_000
    workers = int(os.environ.get("WORKERS") or os.cpu_count() or 1) if seconds else 1
    began_s, count, failed = time.monotonic(), 0, 0
    print(f"from seed {first}", flush=True)
    with ProcessPoolExecutor(workers) as pool:
        running: set[Future[str | None]] = set()
        while True:
            while (len(running) < 2 * workers and time.monotonic() - began_s < seconds) or not count:
                running.add(pool.submit(_failure_of, first + count))
                count += 1
            if not running:
                break
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for failure in [found for each in done if (found := each.result()) is not None]:
                failed += 1
                print(f"FAILED: {failure}", flush=True)
    took_s = time.monotonic() - began_s
    print(f"{count} worlds in {took_s:.0f} s, {60 * count / took_s:.0f} a minute; {failed} failed")
    if failed:
        sys.exit(1)


def _failure_of(seed: int) -> str | None:
    """Run a world; returns what was wrong, and how to see it again."""
    try:
        run_world(seed)
    except AssertionError as error:
        return f"{error}\n  again: SEED={seed} python -m tests.streams.lanes"
    return None


def _mutations() -> None:
    missed = 0
    first = int(os.environ.get("SEED") or FIRST)
    with ProcessPoolExecutor() as pool:
        each_found = pool.map(_world_of, MUTATIONS, repeat(first))
    for mutation, found in zip(MUTATIONS.values(), each_found, strict=True):
        missed += found is None
        what = f"not found in {WORLDS} worlds" if found is None else f"found in world {found[0]}"
        print(f"{mutation.name}: {what}: {mutation.sentence}", flush=True)
    if missed:
        sys.exit(1)


def _world_of(name: str, first: int) -> tuple[int, str] | None:
    return found_in(MUTATIONS[name], first=first)


if __name__ == "__main__":
    main()
