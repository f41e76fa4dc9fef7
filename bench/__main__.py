"""`python -m bench --out FILE`: run the cases, print a table, write the rows, end with how many targets were met."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable
from importlib import import_module, util
from pathlib import Path
from tempfile import mkdtemp

from bench.broker import broker_cases
from bench.compaction import compaction_cases
from bench.crowd import crowd_cases
from bench.rows import Case, Rounds, Row, print_table, write_rows
from bench.systems import KAFKA, Kafka, Ottla, System
from ottla.wire import build_mode
from tests import peer

CLUSTER = "bench.cluster"
MORE = ("bench.spark", CLUSTER)
"""Modules that add rows of their own: `rows(systems, scale, rounds) -> list[Row]`."""


def make(name: str, folder: Path) -> System:
    """Return a broker by the name of its system, not started yet."""
    return Kafka(name, folder) if name == KAFKA else Ottla(name, folder)


def main(argv: list[str]) -> int:
    """Run the benchmark; returns 0 when it ran, whatever it measured."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench.json"))
    parser.add_argument("--only", help="cases whose name contains this, or one of several with | between")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tenth of the load, one round")
    parser.add_argument("--modes", default="", help="compiled, pure or both with a comma; default: what is there")
    args = parser.parse_args(argv)
    if reason := peer.missing():
        print(f"{reason}\n0 passed, 0 failed")
        return 1
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that the brokers are stopped
    modes = args.modes.split(",") if args.modes else available_modes()
    scale, rounds = (0.1, 1) if args.quick else (1.0, args.rounds)
    families = (broker_cases, compaction_cases, crowd_cases)
    cases = [case for family in families for case in family(make, scale=scale) if wanted(case.name, args.only)]
    systems = [make(name, Path(mkdtemp(prefix=f"ottla-bench-{name}-"))) for name in [*modes, KAFKA]]
    rows: list[Row] = []
    try:
        if cases or wanted("bench.spark", args.only):
            for system in systems:
                say(f"starting {system.name}")
                system.start()
        rows += run_cases(cases, systems, modes, rounds)
        rows += more_rows(systems, scale, rounds, args.only)
    finally:
        for system in systems:
            system.stop()
    write_rows(rows, args.out)
    print_table(rows)
    held = [row.met for row in rows if row.met is not None]
    print(f"{held.count(True)} passed, {held.count(False)} failed")
    return 0


def wanted(name: str, only: str | None) -> bool:
    """Return whether a case is to run."""
    return not only or any(part in name for part in only.split("|"))


def available_modes() -> list[str]:
    """Return `compiled` where mypyc's modules are there, and `pure`."""
    compiled = build_mode() == "compiled"
    return ["compiled", "pure"] if compiled else ["pure"]


def run_cases(cases: list[Case], systems: list[System], modes: list[str], rounds: int) -> list[Row]:
    """Run every case on every system in turn, round by round."""
    measured = Rounds()
    started = time.monotonic()
    for number, case in enumerate(cases, 1):
        for each in range(rounds):
            # the order turns with the round, so that a drifting machine favours nobody
            turn = each % len(systems)
            for system in systems[turn:] + systems[:turn]:
                at = f"[{time.monotonic() - started:4.0f} s] {number}/{len(cases)}"
                say(f"{at} {case.name}: round {each + 1}, {system.name}")
                try:
                    values = case.run(system)
                except (RuntimeError, OSError) as error:
                    say(f"  failed on {system.name}: {error}")
                    continue
                units = {metric.name: metric.unit for metric in case.metrics}
                for name, value in values.items():
                    measured.add(system.name, name, value)
                    say(f"    {name}: {value:.4g} {units[name]}")
    metrics = [metric for case in cases for metric in case.metrics]
    return measured.rows(metrics, modes)


def more_rows(systems: list[System], scale: float, rounds: int, only: str | None) -> list[Row]:
    """Return the rows of the modules that add their own, where what they need is installed."""
    found: list[Row] = []
    for name in MORE:
        if util.find_spec(name) is None or not wanted(name, only):
            continue
        if name == CLUSTER:
            for system in systems:
                system.halt()  # the clusters have the machine to themselves
        rows: Callable[[list[System], float, int], list[Row]] = import_module(name).rows
        found += rows(systems, scale, rounds)
    return found


def say(text: str) -> None:
    """Print a line of progress at once."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
