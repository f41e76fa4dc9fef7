"""`make chaos-streams`: kills of chance, and the count at the end."""

from __future__ import annotations

import argparse
import math
import random
import tempfile
import time
from pathlib import Path

from tests.streams.kills.rounds import CLUSTER, KINDS, LOCAL, WEIGHTS, kills


def main() -> None:
    """Kill as often as asked, and say what came of it; exits with an error where a result is not there once."""
    parser = argparse.ArgumentParser(prog="python -m tests.streams.kills", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, metavar="N", help="how many kills")
    parser.add_argument("--seed", type=int, default=int(time.time()), metavar="N", help="which kills")
    parser.add_argument("--only", choices=KINDS, help="kills of one kind")
    parser.add_argument("--state", choices=("stateful", "native"), default="stateful", help="who counts")
    parser.add_argument("--seconds", type=float, default=math.inf, metavar="N", help="end after so long all the same")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    print(f"seed {args.seed}", flush=True)
    masters = (LOCAL, LOCAL, LOCAL, CLUSTER)
    began, turn = time.monotonic(), 0
    with (
        tempfile.TemporaryDirectory() as folder,
        kills(Path(folder), args.seed, masters=masters, state=args.state) as rounds,
    ):
        while turn < args.rounds and time.monotonic() - began < args.seconds:
            turn += 1
            rounds.kill(args.only or rng.choices(KINDS, WEIGHTS)[0])
            print(f"{turn} killed {dict(rounds.killed)} after {time.monotonic() - began:.0f} s", flush=True)
        records = rounds.check()
    print(f"{records} records, each result once after {turn} kills; worst pause {rounds.worst_s:.1f} s")


if __name__ == "__main__":
    main()
