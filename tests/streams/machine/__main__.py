"""`python -m tests.streams.machine`: every case; part of `make chaos-streams`."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.streams.machine.cases import Kind, run_all


def main() -> None:
    """Run what is asked for, and say what was not kept; exits with an error where something was not."""
    parser = argparse.ArgumentParser(prog="python -m tests.streams.machine", description=__doc__)
    parser.add_argument("--kind", choices=[each.name for each in Kind], help="one kind of application")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each n-th case only")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="from this one on")
    parser.add_argument("--show", type=int, default=20, metavar="N", help="so many violations")
    args = parser.parse_args()
    failed = 0
    for kind in Kind if args.kind is None else [Kind[args.kind]]:
        for once in (True, False):
            began = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                found, ran = run_all(kind, once, Path(folder), every=args.every, beginning=args.first)
            promise = "exactly once" if once else "at least once"
            print(f"{kind.value}, {promise}: {ran} cases in {time.monotonic() - began:.1f} s, {len(found)} not kept")
            for each, count in Counter(str(each) for each in found).most_common(args.show):
                print(f"  {count} x {each}")
            failed += len(found)
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
