"""One round: fresh topics, clients on all of them, faults, and then every claim about what they were told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.chaos.faults import Fault
from tests.chaos.history import (
    Outcome,
    Verdict,
    check_commits,
    check_seen,
    check_sent,
    check_transactions,
    longest_stall,
)
from tests.chaos.loads import PARTITIONS, Ledger, Load, committed_offsets, drain, read_topic, running
from tests.chaos.world import World, until

__all__ = ["Round", "run_round"]

FLOW_SECONDS_MAX = 60.0
"""How long every partition may take to be written to again, once nothing is broken any more."""
READ_SECONDS_MAX = 120.0
CALM_SECONDS = 1.0


@dataclass
class Round:
    """What one round has counted, and what speaks against the cluster."""

    faults: list[str] = field(default_factory=list)
    acknowledged: int = 0
    read: int = 0
    verdict: Verdict = field(default_factory=Verdict)
    stall_seconds: float = 0.0
    stalls: dict[str, float] = field(default_factory=dict)
    """The longest stall of each kind of fault."""

    @property
    def problems(self) -> list[str]:
        """Everything that must not happen, with its kind."""
        return [f"{kind}: {what}" for kind, found in sorted(self.verdict.against.items()) for what in found]

    def line(self) -> str:
        """Return the counts as one line."""
        counted = ", ".join(f"{kind} {self.verdict.count(kind)}" for kind in ("lost", "duplicated"))
        more = {kind: len(found) for kind, found in self.verdict.against.items() if kind not in ("lost", "duplicated")}
        others = "".join(f", {kind} {count}" for kind, count in sorted(more.items()) if count)
        return (
            f"{self.acknowledged:,} acknowledged, {self.read:,} read, {counted}{others}, "
            f"longest stall {self.stall_seconds:.2f} s"
        )


def run_round(world: World, name: str, faults: Sequence[Fault], rng: Random, say: Callable[[str], None]) -> Round:
    """Run one round and return what it found; what does not come back in time is a finding, too."""
    found, ledger = Round(), Ledger()
    load = Load(world.bootstrap, f"plain-{name}", f"txn-{name}", f"group-{name}", ledger, threading.Event())
    try:
        world.create(load.plain, load.transactional)
        with running(load):
            await_flow(ledger)
            for fault in faults:
                found.faults.append(fault.name)
                begun = time.monotonic()
                fault.run(world, load.plain, rng, say)
                await_flow(ledger)
                stall = stall_since(ledger, begun)
                found.stalls[fault.name] = max(stall, found.stalls.get(fault.name, 0.0))
            world.await_full([load.plain, load.transactional])
            time.sleep(CALM_SECONDS)
            found.stall_seconds = max(found.stalls.values(), default=0.0)
        settle(world, load, found)
    except TimeoutError as error:
        found.verdict.add("not back", str(error))
    for error in ledger.errors:
        found.verdict.add("error", error)
    for answer in ledger.stale:
        found.verdict.add("stale", answer)
    found.acknowledged = ledger.acknowledged()
    return found


def await_flow(ledger: Ledger) -> None:
    """Return when every partition has acknowledged something since now; raises TimeoutError with those that have not."""
    since = time.monotonic()

    def waiting() -> list[int]:
        newest = ledger.newest_acknowledgement()
        return [each for each in range(PARTITIONS) if newest.get(each, 0.0) <= since]

    if not until(lambda: not waiting(), FLOW_SECONDS_MAX):
        raise TimeoutError(f"nothing was acknowledged for {FLOW_SECONDS_MAX:.0f} s in partitions {waiting()}")


def stall_since(ledger: Ledger, begun: float) -> float:
    """Return the longest gap between two acknowledgements of a partition since a fault began."""
    with ledger.lock:
        times = {each: [begun, *(at for at in found if at >= begun)] for each, found in ledger.acknowledged_at.items()}
    return longest_stall(times, until=max(found[-1] for found in times.values()))


def settle(world: World, load: Load, found: Round) -> None:
    """Read everything and hold it against what the clients were told."""
    ledger = load.ledger
    plain = read_topic(world.bootstrap, load.plain, committed_only=False, seconds=READ_SECONDS_MAX)
    committed = read_topic(world.bootstrap, load.transactional, committed_only=True, seconds=READ_SECONDS_MAX)
    standing = drain(load, plain, READ_SECONDS_MAX)
    if standing is not None:
        found.verdict.add("not consumed", standing)
    found.read = len(plain) + len(committed)
    verdict = found.verdict
    verdict.merge(check_sent(ledger.sent, plain))
    verdict.merge(check_transactions(ledger.transactions, committed))
    verdict.merge(check_seen(ledger.seen[load.plain], plain))
    verdict.merge(check_seen(ledger.seen[load.transactional], committed))
    verdict.merge(check_commits(ledger.commits, committed_offsets(world.bootstrap, load.group, load.plain)))
    for partition in range(PARTITIONS):
        offsets = {entry.offset for entry in plain if entry.partition == partition}
        if missing := offsets - ledger.consumed[partition]:
            verdict.add("not consumed", f"the group never got offsets {sorted(missing)[:5]} of partition {partition}")
    if not any(each.outcome is Outcome.COMMITTED for each in ledger.transactions):
        verdict.add("not back", "no transaction was committed")
