"""`SECONDS=60 SEED=1 python -m tests.streams.lanes`: worlds of lanes, one after another, until the time is over.

Without SECONDS the world of SEED alone; without SEED fresh ones. `MUTATIONS=1` looks for each fault that is put back.
"""

from __future__ import annotations

import os
import sys
import time

from tests.streams.lanes.mutations import MUTATIONS, WORLDS, found_in
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
    began_s, count, failed = time.monotonic(), 0, 0
    print(f"from seed {first}", flush=True)
    while not count or time.monotonic() - began_s < seconds:
        try:
            run_world(first + count)
        except AssertionError as error:
            failed += 1
            print(f"FAILED: {error}\n  again: SEED={first + count} python -m tests.streams.lanes", flush=True)
        count += 1
    took_s = time.monotonic() - began_s
    print(f"{count} worlds in {took_s:.0f} s, {60 * count / took_s:.0f} a minute; {failed} failed")
    if failed:
        sys.exit(1)


def _mutations() -> None:
    missed = 0
    for mutation in MUTATIONS.values():
        found = found_in(mutation)
        missed += found is None
        what = f"not found in {WORLDS} worlds" if found is None else f"found in world {found[0]}"
        print(f"{mutation.name}: {what}: {mutation.sentence}", flush=True)
    if missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
