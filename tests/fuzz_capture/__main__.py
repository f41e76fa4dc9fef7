"""`python -m tests.fuzz_capture --server NAME --seconds N`: histories of seeds that no run had before.

A fault prints its seed, what differs, and the fewest statements that show it; `--seed` does it again. `--themes` draws from
some themes only, and `--count` goes on behind a fault and counts: in how many of the histories there was one.
"""

from __future__ import annotations

import argparse
import random
import time

from tests.fuzz_capture.driver import SHRINK_SECONDS, WORDS, tried
from tests.fuzz_capture.servers import running_side


def main() -> int:
    """Run; returns 1 where there was a fault."""
    parser = argparse.ArgumentParser(prog="tests.fuzz_capture")
    parser.add_argument("--server", choices=sorted(WORDS), action="append")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--themes", default="")
    parser.add_argument(
        "--shrink", type=float, default=SHRINK_SECONDS, help="seconds for making a failing history smaller"
    )
    parser.add_argument("--count", action="store_true", help="go on behind a fault")
    asked = parser.parse_args()
    servers = asked.server or sorted(WORDS)
    return max(_server(asked, each, asked.seconds / len(servers)) for each in servers)


def _server(asked: argparse.Namespace, server: str, seconds: float) -> int:
    themes = [each for each in asked.themes.split(",") if each]
    until, done, faults = time.monotonic() + seconds, 0, 0
    with running_side(server) as side:
        while True:
            seed = random.SystemRandom().randrange(1 << 40) if asked.seed is None else asked.seed
            found = tried(side, seed, themes=themes, restarts=True, shrink_seconds=asked.shrink)
            done += 1
            if found is not None:
                faults += 1
                print(f"--server {server} --seed {seed} --themes {asked.themes or '(drawn)'}\n{found}\n", flush=True)
            if asked.seed is not None or time.monotonic() > until or (faults and not asked.count):
                break
    print(f"{server}: {done - faults} cases held, {faults} failed", flush=True)
    return int(faults > 0)


if __name__ == "__main__":
    raise SystemExit(main())
