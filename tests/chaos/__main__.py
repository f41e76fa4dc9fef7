"""`python -m tests.chaos --rounds N [--seed S]`: break a cluster of processes under load; ends with `N passed, M failed`."""

from __future__ import annotations

import argparse
import random
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.chaos.faults import Fault, available
from tests.chaos.network import enter_private_network, missing
from tests.chaos.rolling import run_rolling
from tests.chaos.rounds import Round, run_round
from tests.chaos.world import World, running_world

__all__ = ["main"]

PORT = 26500
SHOWN_MAX = 20


def chosen(kinds: list[Fault], number: int, rng: random.Random, only: str | None) -> list[Fault]:
    """Return the faults of one round: each kind has its turn, and chance adds up to two more."""
    if only is not None:
        return [each for each in kinds if only in each.name]
    return [kinds[number % len(kinds)], *rng.sample(kinds, rng.randrange(3))]


def run(folder: Path, args: argparse.Namespace, say: Callable[[str], None]) -> list[Round]:
    """Run every round on one cluster, which ages with them."""
    reason = missing() if not args.loopback else "no network partitions and no full disk: --loopback"
    if reason:
        say(f"skipped: {reason}")
    else:
        enter_private_network()
    kinds = available(network=reason is None, disk=reason is None)
    seed = args.seed
    random.Random(seed).shuffle(kinds)
    rounds: list[Round] = []
    with running_world(folder, args.port, networks=reason is None, small_disk=reason is None) as world:
        for number in range(args.rounds):
            rng = random.Random(f"{seed}-{number}")
            faults = chosen(kinds, number, rng, args.only)
            say(f"round {number + 1}/{args.rounds}, seed {seed}: {', '.join(each.name for each in faults)}")
            found = run_round(world, f"{seed}-{number}", faults, rng, lambda what: say(f"  {what}"))
            rounds.append(found)
            report(found, say)
            if not mended(world, say):
                return rounds
        if args.only is None or "rolling" in args.only:
            say("one more round: rolling restart under four client libraries")
            rounds.append(run_rolling(world, f"{seed}-rolling", lambda what: say(f"  {what}")))
            report(rounds[-1], say)
    return rounds


def report(found: Round, say: Callable[[str], None]) -> None:
    """Print a round's counts, and what speaks against the cluster."""
    say(f"  {found.line()}")
    for kind, seconds in found.stalls.items():
        say(f"  longest stall, {kind}: {seconds:.2f} s")
    for problem in found.problems[:SHOWN_MAX]:
        say(f"  FAILED {problem}")


def mended(world: World, say: Callable[[str], None]) -> bool:
    """Return whether the cluster is whole again for the next round."""
    try:
        world.revive()
        world.await_ready()
    except TimeoutError as error:
        say(f"the cluster does not come back: {error}")
        return False
    return True


def summary(rounds: list[Round], asked: int) -> list[str]:
    """Return the closing lines; the last one is for scripts."""
    kinds = Counter(name for each in rounds for name in each.faults)
    stalls: dict[str, float] = {}
    for each in rounds:
        for kind, seconds in each.stalls.items():
            stalls[kind] = max(seconds, stalls.get(kind, 0.0))
    counts = {kind: sum(each.verdict.count(kind) for each in rounds) for kind in ("lost", "duplicated", "reordered")}
    asked = max(asked, len(rounds))
    failed = sum(bool(each.problems) for each in rounds) + asked - len(rounds)
    return [
        f"rounds {len(rounds)}, faults {sum(kinds.values())}: "
        + ", ".join(f"{kind} {count} (longest stall {stalls.get(kind, 0.0):.1f} s)" for kind, count in kinds.items()),
        f"acknowledged {sum(each.acknowledged for each in rounds):,}, read {sum(each.read for each in rounds):,}, "
        + ", ".join(f"{kind} {count}" for kind, count in counts.items())
        + f", longest stall {max((each.stall_seconds for each in rounds), default=0.0):.2f} s",
        f"{asked - failed} passed, {failed} failed",
    ]


def main(argv: list[str]) -> int:
    """Run and print; returns 0 where nothing speaks against the cluster."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, help="chooses the faults; a new one each time without it")
    parser.add_argument("--only", help="only faults whose name contains this, all of them in each round")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--loopback", action="store_true", help="no networks of their own for the nodes")
    parser.add_argument("--keep", type=Path, help="a folder to keep the nodes' data and logs in")
    args = parser.parse_args(argv)
    args.seed = args.seed if args.seed is not None else secrets.randbelow(1_000_000)
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - started:4.0f} s] {text}", flush=True)

    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that the nodes are stopped
    with tempfile.TemporaryDirectory(prefix="ottla-chaos-", ignore_cleanup_errors=True) as folder:
        rounds = run(args.keep or Path(folder), args, say)
    print("\n".join(summary(rounds, args.rounds)))
    return 1 if any(each.problems for each in rounds) or len(rounds) < args.rounds else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
