"""`python -m bench.security --out FILE`: what TLS, ACLs and floods cost, Ottla beside Apache Kafka in one run."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Protocol

import psutil

from bench.__main__ import available_modes, say, wanted
from bench.broker import Topic, fetch_case, generate, produce_case, unique
from bench.generator import Load
from bench.rows import Case, Metric, Rounds, Row, print_table, write_rows
from bench.secured import SMALL, AclPair, Keys, keys, login_port, started_pair, started_secured, tls_port, warm_up
from bench.systems import KAFKA, System
from bench.visitors import Visit, staying, visited
from tests import peer

__all__ = ["Family", "acl_cases", "families", "idle_case", "run_family", "tls_cases"]

ROUNDS, ACL_ROUNDS = 3, 10
TURNS = 3
"""How often the kinds of an ACL round take turns: what the machine does meanwhile then meets them all alike."""
LARGE: dict[str, int] = {"batch_bytes": 1 << 20, "depth": 2}
IDLE = 1_000
IDLE_MIB_MAX = 60
HANDSHAKES = 600
FLOOD_RATE = 500
"""Handshakes, or logins, a second: what two processors can send beside a broker without being what is measured."""
STORM_RATE = 100
ACLS = 10_000
LATENCIES = 5_000


class Named(Protocol):
    """What cases run on."""

    @property
    def name(self) -> str:
        """The system's name."""
        ...


@dataclass(frozen=True)
class Kind:
    """A system by its name, for a case that starts brokers itself."""

    name: str


@dataclass(frozen=True)
class Family:
    """Cases that share brokers: `opened(name)` has them there for the length of a block."""

    cases: list[Case]
    rounds: int
    opened: Callable[[str], AbstractContextManager[Named]]


def families(secrets: Keys, *, scale: float, rounds: int | None = None) -> list[Family]:
    """Return all there is to measure; `scale` shortens it."""

    @contextmanager
    def warm(name: str) -> Iterator[System]:
        with started_secured(name, secrets, in_memory=True) as system:
            warm_up(system, scale=scale)
            yield system

    def pair(name: str) -> AbstractContextManager[AclPair]:
        return started_pair(name, secrets, acls=max(1000, int(ACLS * scale)), scale=scale)

    return [
        Family(tls_cases(secrets, scale=scale), rounds or ROUNDS, warm),
        Family(acl_cases(scale=scale), rounds or ACL_ROUNDS, pair),
        Family(
            [idle_case(secrets, max(100, int(IDLE * scale)))], rounds or ROUNDS, lambda name: nullcontext(Kind(name))
        ),
    ]


# -- TLS


def tls_cases(secrets: Keys, *, scale: float) -> list[Case]:
    """Return the cases of TLS, on brokers of one key and one cipher."""

    def size(full: int) -> int:
        return max(128, int(full * scale))

    produce_1m, produce_16k, kb = {"cpu": 0.6}, {"cpu": 0.25}, {"record_bytes": 1000}
    return [
        fetch_case("TLS: fetch 1 MiB", 1 << 20, size(600_000_000), {"cpu": 0.4}),
        produce_case("TLS: produce 1 KB records, 1 MiB batches", size(600), produce_1m, **LARGE, **kb),
        produce_case("TLS: produce 100 B records, 1 MiB batches", size(600), produce_1m, **LARGE),
        produce_case("TLS: produce 1 KB records, 16 KiB batches", size(20_000), produce_16k, **kb),
        produce_case("TLS: produce 100 B records, 16 KiB batches", size(20_000), produce_16k),
        handshake_case("full", "full handshakes", size(HANDSHAKES)),
        handshake_case("resumed", "resumed handshakes", size(HANDSHAKES)),
        flood_case(size(LATENCIES)),
    ]


def handshake_case(kind: str, title: str, count: int) -> Case:
    """Return the case of handshakes, each with one answered request."""
    name, cpu = f"TLS 1.3: {title}", f"TLS 1.3: {title}, broker CPU"

    def run(system: System) -> dict[str, float]:
        visit = Visit(kind, tls_port(system), system.loads["trust"], count=count)
        visited(replace(visit, count=max(4, count // 4)))
        before = system.cpu_seconds()
        found = visited(visit)
        used = system.cpu_seconds() - before
        return {name: found["done"] / found["seconds"], cpu: used / found["done"] * 1000}

    return Case(name, [Metric(name, "1/s"), Metric(cpu, "ms")], run)  # type: ignore[arg-type]


def idle_case(secrets: Keys, count: int) -> Case:
    """Return the case of idle connections, on brokers that were started for it: memory that was used before hides them."""
    name, plain = f"{count:,} idle TLS connections: memory more", f"{count:,} idle connections in clear: memory more"
    metrics = [Metric(name, "MiB", at_most=IDLE_MIB_MAX, absolute=True), Metric(plain, "MiB")]

    def run(system: Named) -> dict[str, float]:
        found = {}
        for title, is_secure in ((name, True), (plain, False)):
            with started_secured(system.name, secrets) as fresh:
                trust = str(secrets.trusted) if is_secure else ""
                visit = Visit("idle", tls_port(fresh) if is_secure else fresh.port, trust, count=count)
                with staying(replace(visit, count=10)):
                    before = fresh.memory_mib()
                with staying(visit):
                    found[title] = fresh.memory_mib() - before
        return found

    return Case(name, metrics, run)  # type: ignore[arg-type]


def flood_case(requests: int) -> Case:
    """Return the case of other clients' latency, on a plain connection, without a flood and beside two kinds of it."""
    title = "produce latency at 1,000/s"
    places = {
        "without": f"{title} without a flood",
        "hellos": f"{title} beside {FLOOD_RATE} handshakes/s that nobody ends",
        "logins": f"{title} beside {FLOOD_RATE} wrong logins/s",
    }
    metrics = [Metric(f"{place}, {which}", "ms") for place in places.values() for which in ("p50", "p99")]
    rates = {kind: f"{place}: the flood's rate" for kind, place in places.items() if kind != "without"}
    metrics += [Metric(name, "1/s") for name in rates.values()]

    def run(system: System) -> dict[str, float]:
        found: dict[str, float] = {}
        ports = {"hellos": tls_port(system), "logins": login_port(system)}
        with Topic(system, unique("flood")) as topic:
            load = Load(kind="latency", port=system.port, topic=topic, batch_bytes=170, requests=requests)
            generate(replace(load, requests=max(100, requests // 5)))
            for kind, place in places.items():
                with ExitStack() as stack:
                    done: dict[str, float] = {}
                    if kind != "without":
                        visit = Visit(kind, ports[kind], system.loads["trust"], rate=FLOOD_RATE)
                        done = stack.enter_context(staying(visit))
                    measured = generate(load)
                found |= {f"{place}, {which}": measured[which] for which in ("p50", "p99")}
                if done:
                    found[rates[kind]] = done["done"] / done["seconds"]
        return found

    return Case("flood", metrics, run)  # type: ignore[arg-type]


# -- ACLs


def acl_cases(*, scale: float, turns: int = TURNS) -> list[Case]:
    """Return the case of small requests without an authorizer, with entries, and while entries change."""
    requests = max(8192, int(60_000 * scale))  # fewer may take less than a tick of the clock that counts
    title = "small Produce"
    cpu = {
        "without": f"{title} without an authorizer, broker CPU",
        "with": f"{title} with {ACLS:,} ACLs, broker CPU",
        "storm": f"{title} with {ACLS:,} ACLs, {STORM_RATE} changes/s, broker CPU",
    }
    ratios = {"with": f"{title}: {ACLS:,} ACLs / without", "storm": f"{title}: {STORM_RATE} changes/s / without"}
    limits = {"with": 1.05, "storm": 1.2}
    changes, one_change = "ACL changes meanwhile", f"ACL change among {ACLS:,}, broker CPU"
    metrics = [
        *(Metric(name, "µs/request") for name in cpu.values()),
        *(Metric(name, "x", at_most=limits[kind], absolute=True) for kind, name in ratios.items()),
        Metric(changes, "1/s"),
        Metric(one_change, "ms"),
    ]
    turn = 0

    def run(pair: AclPair) -> dict[str, float]:
        nonlocal turn
        kinds = list(cpu)
        used = dict.fromkeys(kinds, 0.0)
        changed = {"done": 0.0, "seconds": 0.0}
        # Beside other work a second's changes meet fewer requests, and the ratio says more of that than of either.
        for _ in range(turns):
            turn = (turn + 1) % len(kinds)
            for kind in kinds[turn:] + kinds[:turn]:
                system = pair.without if kind == "without" else pair.with_acls
                with ExitStack() as stack:
                    done = {}
                    if kind == "storm":
                        done = stack.enter_context(staying(Visit("changes", system.port, rate=STORM_RATE)))
                    used[kind] += small_produce(system, requests) / turns
                changed = {each: changed[each] + done.get(each, 0.0) for each in changed}
        found = {name: used[kind] * 1e6 for kind, name in cpu.items()}
        found |= {name: used[kind] / used["without"] for kind, name in ratios.items()}
        more = (used["storm"] - used["with"]) * requests * turns
        return found | {
            changes: changed["done"] / changed["seconds"],
            one_change: more / changed["done"] * 1e3,
        }

    return [Case("ACLs", metrics, run)]  # type: ignore[arg-type]


def small_produce(system: System, requests: int) -> float:
    """Return the broker's seconds of processor time for one request of a record of 100 bytes."""
    before = system.cpu_seconds()
    found = generate(Load(**SMALL, **system.loads, requests=requests))
    return (system.cpu_seconds() - before) / found["requests"]


# -- running them


@dataclass
class Others:
    """How much of the machine others have while a block runs: those that this process has not started."""

    processors: list[float] = field(default_factory=list)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note it for the length of a block."""
        started, busy = time.monotonic(), _busy_seconds()
        yield  # what fails is no figure, and what others had meanwhile is none either
        self.processors.append(max(0.0, round((_busy_seconds() - busy) / (time.monotonic() - started), 4)))


def _busy_seconds() -> float:
    """Return what all processors have done so far, without this process and what it has started."""
    times = psutil.cpu_times()
    busy = times.user + times.nice + times.system + times.irq + times.softirq
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        with_ended = process.cpu_times()
        busy -= with_ended.user + with_ended.system + with_ended.children_user + with_ended.children_system
    return float(busy)


def run_family(family: Family, names: list[str], modes: list[str], only: str | None = None) -> list[Row]:
    """Run the wanted cases of a family on every system in turn, round by round."""
    cases = [
        case
        for case in family.cases
        if wanted(case.name, only) or any(wanted(each.name, only) for each in case.metrics)
    ]
    rows: list[Row] = []
    with ExitStack() as stack:
        if cases:
            say(f"starting {', '.join(names)}")
        systems = [stack.enter_context(family.opened(name)) for name in names if cases]
        for case in cases:
            measured, others = Rounds(), Others()
            for each in range(family.rounds):
                turn = each % len(systems)
                for system in systems[turn:] + systems[:turn]:
                    say(f"{case.name}: round {each + 1}, {system.name}")
                    try:
                        with others.watched():
                            values = case.run(system)
                    except (RuntimeError, OSError) as error:
                        say(f"  failed on {system.name}: {error}")
                        continue
                    for name, value in values.items():
                        measured.add(system.name, name, value)
                        say(f"    {name}: {value:.4g}")
            share = median(others.processors) if others.processors else None
            rows += [replace(row, others=share) for row in measured.rows(case.metrics, modes)]
    return rows


def main(argv: list[str]) -> int:
    """Run the benchmark; returns 0 when it ran, whatever it measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.security", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench-security.json"))
    parser.add_argument("--only", help="cases with this in their name or a figure's, or one of several with | between")
    parser.add_argument("--rounds", type=int, help=f"default: {ROUNDS}, and {ACL_ROUNDS} for ACLs")
    parser.add_argument("--scale", type=float, default=1.0, help="below 1 for a trial")
    parser.add_argument("--alone", action="store_true", help="without Apache Kafka")
    args = parser.parse_args(argv)
    if not args.alone and (reason := peer.missing()):
        print(reason)
        return 1
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that the brokers are stopped
    mode = available_modes()[0]
    rows: list[Row] = []
    with keys() as secrets:
        for family in families(secrets, scale=args.scale, rounds=args.rounds):
            rows += run_family(family, [mode] if args.alone else [mode, KAFKA], [mode], args.only)
            write_rows(rows, args.out)
    print_table(rows)
    held = [row.met for row in rows if row.met is not None]
    print(f"{held.count(True)} passed, {held.count(False)} failed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
