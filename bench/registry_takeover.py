"""How long nothing can be registered when the primary goes: three instances, the primary stopped or killed, in turn."""

from __future__ import annotations

import itertools
import json
import signal
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkdtemp

from bench.rows import Metric
from bench.systems import Ottla
from tests.processes import end
from tests.registry.running import RegistryProcess, record, start_registry
from tests.waiting import until

__all__ = ["METRICS", "takeovers"]

INSTANCES = 3
SESSION_S, AFTER_SESSION_S_MAX, CLEAN_S_MAX = 6.0, 2.0, 3.0
KILLED_S_MAX = SESSION_S + AFTER_SESSION_S_MAX
ANSWER_S_MAX = 30.0
STOPPED, KILLED = "next schema after a clean stop of the primary", "next schema after kill -9 of the primary"
METRICS = (
    Metric(STOPPED, "s", at_most=CLEAN_S_MAX, absolute=True),
    Metric(KILLED, "s", at_most=KILLED_S_MAX, absolute=True),
)


def takeovers() -> dict[str, float]:
    """Return the seconds from each kind of end to the answer to a schema that was sent right after it."""
    folder = Path(mkdtemp(prefix="ottla-bench-takeover-"))
    broker = Ottla("ottla", folder, overrides=("group.initial.rebalance.delay.ms=0",))
    broker.start()
    numbers = itertools.count()
    try:
        return {
            title: _after(broker.bootstrap, number, numbers)
            for title, number in ((STOPPED, signal.SIGTERM), (KILLED, signal.SIGKILL))
        }
    finally:
        broker.stop()


def _after(bootstrap: str, number: signal.Signals, numbers: itertools.count[int]) -> float:
    with ExitStack() as stack:
        instances = [start_registry(bootstrap) for _ in range(INSTANCES)]
        for each in instances:
            stack.callback(end, each.process, 60)
        until(lambda: len({_primary(each) for each in instances} - {""}) == 1, "one primary")
        named = _primary(instances[0])
        primary = next(each for each in instances if each.url == named)
        other = next(each for each in instances if each is not primary)
        for each in instances:  # so that none of them is in the midst of its start any more
            _register(each, next(numbers))
        primary.process.send_signal(number)
        begun = time.monotonic()
        while not _register(other, next(numbers)):
            if time.monotonic() - begun > ANSWER_S_MAX:
                raise RuntimeError(f"nothing was registered: {other.said()}")
        return time.monotonic() - begun


def _primary(registry: RegistryProcess) -> str:
    try:
        with urllib.request.urlopen(f"{registry.url}/health", timeout=ANSWER_S_MAX) as answer:
            return str(json.loads(answer.read())["primary"])
    except urllib.error.HTTPError:
        return ""


def _register(registry: RegistryProcess, number: int) -> bool:
    found = registry.ask("POST", f"/subjects/takeover-{number}/versions", {"schema": record(f"Takeover{number}")})
    return found.status == 200
