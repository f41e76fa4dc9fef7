"""`python -m tests.connect.machine --seconds 60`: worlds of Connect's workers, one after another, until the time is over.

`--seed 1` begins with that one, and runs it alone without `--seconds`; without it seeds are fresh. `--mutations` looks for
each fault that is put back. Each core has worlds of its own, or as many processes as `--processes` says.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

from tests.connect.machine.mutations import MUTATIONS, WORLDS, found_in
from tests.connect.machine.sinks import run_sink_world
from tests.connect.machine.world import run_world


def main() -> None:
    """Run worlds; exits with an error where one fails, or a fault is not found."""
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets are walked in the same order every time
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, "-m", "tests.connect.machine", *sys.argv[1:]], environment)
    parser = argparse.ArgumentParser(prog="tests.connect.machine", description="Connect's workers in a model")
    parser.add_argument("--seconds", type=lambda text: float(text or 0), default=0.0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--mutations", action="store_true")
    given = parser.parse_args()
    if given.mutations:
        _mutations(given.processes)
    else:
        _worlds(given.seed, given.seconds, given.processes)


def _worlds(seed: int | None, seconds: float, processes: int) -> None:
    first = time.time_ns() // 1_000_000 if seed is None else seed
    began_s, count, failed = time.monotonic(), 0, 0
    print(f"from seed {first}", flush=True)
    with ProcessPoolExecutor(processes) as pool:
        running: set[Future[str | None]] = set()
        while True:
            while (len(running) < 2 * processes and time.monotonic() - began_s < seconds) or not count:
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
        run_sink_world(seed)
    except AssertionError as error:
        return f"{error}\n  again: python -m tests.connect.machine --seed {seed}"
    return None


def _mutations(processes: int) -> None:
    missed = 0
    with ProcessPoolExecutor(processes) as pool:
        each_found = pool.map(_world_of, MUTATIONS)
        for mutation, found in zip(MUTATIONS.values(), each_found, strict=True):
            missed += found is None
            what = f"not found in {WORLDS} worlds" if found is None else f"found in world {found[0]}"
            print(f"{mutation.name}: {what}: {mutation.sentence}", flush=True)
            if found is not None:
                print(f"  {found[1].splitlines()[-1]}", flush=True)
    if missed:
        sys.exit(1)


def _world_of(name: str) -> tuple[int, str] | None:
    return found_in(MUTATIONS[name])


if __name__ == "__main__":
    main()
