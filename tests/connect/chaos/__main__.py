"""`make chaos-connect`: faults of chance, and the account at the end."""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.connect.chaos.rounds import KINDS, chosen, running_rounds


def main() -> int:
    """Break things as often as asked, and say what came of it; returns 1 where a record is not where it has to be."""
    parser = argparse.ArgumentParser(prog="python -m tests.connect.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, metavar="N", help="how many faults")
    parser.add_argument(
        "--seed", type=int, default=int(time.time()), metavar="N", help="which faults; odd: at least once"
    )
    parser.add_argument("--only", choices=list(KINDS), help="faults of one kind")
    parser.add_argument("--seconds", type=float, default=math.inf, metavar="N", help="end after so long all the same")
    parser.add_argument("--keep", type=Path, help="a folder for data and logs that is kept")
    args = parser.parse_args()
    exactly_once = args.seed % 2 == 0
    print(f"seed {args.seed}, sources {'exactly' if exactly_once else 'at least'} once", flush=True)
    rng, began, turn = random.Random(f"kinds of {args.seed}"), time.monotonic(), 0
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
            folder = args.keep or Path(made)
            folder.mkdir(parents=True, exist_ok=True)
            with running_rounds(folder, args.seed, exactly_once=exactly_once) as rounds:
                print(f"everything runs after {time.monotonic() - began:.0f} s", flush=True)
                while turn < args.rounds and time.monotonic() - began < args.seconds:
                    turn += 1
                    kind = args.only or chosen(rng)
                    rounds.round(kind)
                    print(f"{turn} {kind}, after {time.monotonic() - began:.0f} s", flush=True)
                account = rounds.check()
    except AssertionError as error:
        print(f"FAILED with seed {args.seed} in round {turn}: {error}")
        return 1
    kinds = ", ".join(f"{kind} {count}" for kind, count in rounds.done.most_common())
    for each in account.wrong:
        print(f"FAILED with seed {args.seed}: {each}")
    print(f"rounds {turn}: {kinds}; longest until all has caught up {rounds.worst_s:.1f} s")
    print(
        f"{account.records:,} records and {account.dead_letters:,} bad ones, lost {account.lost}, duplicated where once was "
        f"promised {account.duplicated}, repeated where at least once allows it {account.repeated:,}"
    )
    return 1 if account.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
