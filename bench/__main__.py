"""`python -m bench [FAMILY] --save FILE`: Ottla beside Apache Kafka, in turn, round by round; the run is kept whole.

Families: `broker` (compiled, what `make bench` runs), `pure` (the broker's cases without compiled modules), `crowd` (ten
thousand partitions), `spark` (the connectors), `cluster` (three brokers). Before each case what earlier ones left in the
page cache is written to the disk, and the order of the systems turns with the rounds. Kafka is warmed up before its first
round: its code is compiled while it runs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

import psutil

from bench import cluster, spark
from bench.broker import IN_MEMORY, MEMORY, REQUESTS_MAX, Topic, batch_cases, broker_cases, generate, unique
from bench.compaction import compaction_cases
from bench.crowd import crowd_cases
from bench.generator import Load
from bench.rows import Case, Metric, Rounds, print_table
from bench.runs import Run, Sample, facts, rows_of
from bench.systems import KAFKA, KAFKA_VERSION, Kafka, Ottla, System
from ottla.wire import build_mode
from tests import peer

__all__ = ["FAMILIES", "available_modes", "main", "make", "run_cases", "say", "wanted"]

FAMILIES = ("broker", "pure", "crowd", "spark", "cluster")
ROUNDS = 5
WARM_SECONDS = 20.0
OWN_WARM_SECONDS = 1.0
MEMORY_BYTES_MIN = 8 << 30
"""Free in /dev/shm, so that logs there leave the machine its memory."""
DELETES_SOON = ("log.segment.delete.delay.ms=1000",)
"""So that what a round has left in memory is gone before the next."""


def make(name: str, folder: Path) -> System:
    """Return a broker by the name of its system, not started yet."""
    return Kafka(name, folder) if name == KAFKA else Ottla(name, folder)


def main(argv: list[str]) -> int:
    """Run the benchmark; returns 0 when it ran, whatever it measured."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("family", nargs="?", choices=FAMILIES, default="broker")
    parser.add_argument("--save", type=Path, help="keep the run in this file (default: bench-FAMILY.json)")
    parser.add_argument("--only", help="cases whose name contains this, or one of several with | between")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--scale", type=float, default=1.0, help="below 1 for a trial: shorter rounds, less data")
    args = parser.parse_args(argv)
    if reason := peer.missing():
        print(f"{reason}\n0 passed, 0 failed")
        return 1
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that the brokers are stopped
    mode = "pure" if args.family == "pure" else available_modes()[0]
    if mode == "pure" and args.family != "pure":
        say(
            "the hot modules are not compiled (`make install` with a C compiler does it): these are figures of pure Python"
        )
    run = Run(facts(family=args.family, mode=mode, rounds=args.rounds, scale=args.scale, kafka=KAFKA_VERSION))
    save = args.save or Path(f"bench-{args.family}.json")
    try:
        run_family(run, args.family, mode, scale=args.scale, rounds=args.rounds, only=args.only)
    finally:
        run.save(save)
    rows = rows_of(run)
    print_table(rows)
    held = [row.met for row in rows if row.met is not None]
    print(f"kept in {save}: {held.count(True)} passed, {held.count(False)} failed")
    return 0


def run_family(run: Run, family: str, mode: str, *, scale: float, rounds: int, only: str | None) -> None:
    """Measure a family of cases into a run."""
    if family == "cluster":
        add_rounds(run, *cluster.measure(mode, scale, rounds))
        return
    if family == "spark":
        systems = started([mode, KAFKA])
        try:
            add_rounds(run, *spark.measure(systems, scale, rounds))
        finally:
            stop(systems)
        return
    if family == "crowd":
        run_cases(
            run, chosen(crowd_cases(make, scale=scale), only), [make(name, Path()) for name in (mode, KAFKA)], rounds
        )
        return
    cases = [*broker_cases(make, scale=scale), *compaction_cases(make, scale=scale)]
    on_started(run, chosen(cases, only), mode, scale=scale, rounds=rounds)
    in_memory = chosen(batch_cases(scale, IN_MEMORY), only)
    if in_memory and not (MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES_MIN):
        say(f"no rows with logs in memory: {MEMORY} has less than {MEMORY_BYTES_MIN >> 30} GiB free")
        return
    on_started(run, in_memory, mode, scale=scale, rounds=rounds, where=MEMORY)


def on_started(
    run: Run, cases: Sequence[Case], mode: str, *, scale: float, rounds: int, where: Path | None = None
) -> None:
    """Run cases on a broker of each system, in fresh folders, warmed up."""
    if not cases:
        return
    systems = started([mode, KAFKA], where)
    try:
        for system in systems:
            warm(system, (WARM_SECONDS if system.name == KAFKA else OWN_WARM_SECONDS) * min(1.0, scale))
        run_cases(run, cases, systems, rounds)
    finally:
        stop(systems)


def started(names: Sequence[str], where: Path | None = None) -> list[System]:
    """Return brokers that answer, in fresh folders."""
    systems = [make(name, Path(mkdtemp(prefix=f"ottla-bench-{name}-", dir=where))) for name in names]
    try:
        for system in systems:
            say(f"starting {system.name}")
            if where is not None:
                system.overrides += DELETES_SOON
            system.start()
    except BaseException:
        stop(systems)
        raise
    return systems


def stop(systems: Sequence[System]) -> None:
    """Stop brokers and remove what they hold."""
    for system in systems:
        system.stop()


def warm(system: System, seconds: float) -> None:
    """Have a broker answer single requests and whole batches for a while, half of the time each."""
    say(f"warming {system.name} for {seconds:.0f} s")
    for shape in ({"batch_bytes": 170, "depth": 64}, {"batch_bytes": 16384, "depth": 8}):
        with Topic(system, unique("warm")) as topic:
            load = {"kind": "produce", "port": system.port, "topic": topic, "requests": REQUESTS_MAX, **shape}
            generate(Load(**load, seconds=max(0.05, seconds / 2)))  # type: ignore[arg-type]


def wanted(name: str, only: str | None) -> bool:
    """Return whether a case is to run."""
    return not only or any(part in name for part in only.split("|"))


def chosen(cases: Sequence[Case], only: str | None) -> list[Case]:
    """Return the cases that are to run: by their own names, or those of their metrics."""
    return [case for case in cases if any(wanted(name, only) for name in (case.name, *(m.name for m in case.metrics)))]


def available_modes() -> list[str]:
    """Return `compiled` where mypyc's modules are there, and `pure`."""
    compiled = build_mode() == "compiled"
    return ["compiled", "pure"] if compiled else ["pure"]


def run_cases(run: Run, cases: Sequence[Case], systems: list[System], rounds: int) -> None:
    """Run every case on every system in turn, round by round."""
    began_s = time.monotonic()
    for number, case in enumerate(cases, 1):
        run.metrics += case.metrics
        for each in range(rounds):
            turn = each % len(systems)  # so that a drifting machine favours nobody
            for system in systems[turn:] + systems[:turn]:
                at = f"[{time.monotonic() - began_s:4.0f} s] {number}/{len(cases)}"
                say(f"{at} {case.name}: round {each + 1}, {system.name} (load {os.getloadavg()[0]:.1f})")
                sample = one_round(case, system, each)
                if sample is not None:
                    run.samples.append(sample)
                    tell(case, sample)


def one_round(case: Case, system: System, number: int) -> Sample | None:
    """Run a case once on a system; None where it failed, which is said."""
    os.sync()
    load = os.getloadavg()[0]
    before = times_of(system)
    try:
        values = case.run(system)
    except (RuntimeError, OSError) as error:
        say(f"  failed on {system.name}: {error}")
        return None
    after = times_of(system)
    user_s = system_s = None
    if before is not None and after is not None:
        user_s, system_s = (round(one - other, 2) for one, other in zip(after, before, strict=True))
    return Sample(case.name, system.name, number, values, user_s, system_s, round(load, 2))


def times_of(system: System) -> tuple[float, float] | None:
    """Return a broker's processor time; None for one that does not run, as where a case starts its own."""
    found = None
    if system.pid:
        with suppress(psutil.Error):  # a broker that has ended is told by the case itself
            found = system.cpu_times()
    return found


def tell(case: Case, sample: Sample) -> None:
    """Print what a round has measured."""
    units = {metric.name: metric.unit for metric in case.metrics}
    for name, value in sample.values.items():
        say(f"    {name}: {value:.4g} {units[name]}")
    if sample.system_share is not None:
        say(f"    processor time: {sample.user_s:.2f} s user, {sample.system_s:.2f} s system")


def add_rounds(run: Run, metrics: Sequence[Metric], measured: Rounds) -> None:
    """Take in what a family has measured by metric, system and round."""
    run.metrics += metrics
    load = round(os.getloadavg()[0], 2)
    for metric, systems in measured.values.items():
        for system, values in systems.items():
            run.samples += [Sample(metric, system, at, {metric: value}, load=load) for at, value in enumerate(values)]


def say(text: str) -> None:
    """Print a line of progress at once."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
