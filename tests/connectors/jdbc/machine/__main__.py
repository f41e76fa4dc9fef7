"""`python -m tests.connectors.jdbc.machine --seconds N`: histories that no run had before; `--seed` does one again."""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from tests.connectors.jdbc.machine.histories import Count, Difference, History
from tests.connectors.jdbc.machine.places import places


def main() -> int:
    """Run; returns how many histories failed, at most 1."""
    parser = argparse.ArgumentParser(prog="tests.connectors.jdbc.machine")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int)
    asked = parser.parse_args()
    rng, done, count = random.SystemRandom(), 0, Count()
    with tempfile.TemporaryDirectory(prefix="ottla-jdbc-") as folder, places(Path(folder)) as found:
        until = time.monotonic() + asked.seconds
        while time.monotonic() < until:
            seed = rng.randrange(1 << 40) if asked.seed is None else asked.seed
            try:
                History(seed, found, count).run()
            except (Difference, Exception) as error:  # whatever it is, its seed is what is needed
                print(f"--seed {seed}: {type(error).__name__}: {error}")
                if not isinstance(error, Difference):
                    raise
                return 1
            done += 1
            if asked.seed is not None:
                break
    print(f"{done} histories held: {count.rows} rows, {count.letters} dead letters, {count.ended} ended by an error")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
