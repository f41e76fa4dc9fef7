"""`python -m bench.counting`: what it costs a broker to count bytes by client, for each small Produce and Fetch.

The cost is about a hundredth of a request's, and whole rounds of a benchmark differ by more. So one broker, in this process,
serves another process without a pause, and in every other tenth of a second it counts each request `MORE` times again: what
a request then takes more of this process' CPU, divided by `MORE`, is what counting costs. It is paired with the tenth beside
it, and the median of all pairs is told, with how sure it is, so that what else the machine does falls on both or drops out.
The counting again is called from Python, where the broker's own code does it without: the figure is an upper bound.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.generator import Connection, Load, batch_of, fetch_request, produce_request
from ottla.broker.meters import ClientTraffic, TopicTraffic, Traffic
from ottla.client import Client, NewTopic, create_topics
from ottla.wire import build_mode
from tests.broker.node_client import parts, start_node

__all__ = ["KINDS", "main", "measured"]

KINDS = ("produce", "fetch")
TOPIC = "counted"
RECORD_BYTES = 100
MORE = 8
"""How often each request is counted again."""
BLOCK_SECONDS = 0.1
WARM_SECONDS = 2.0
PAIRS = 400
CONNECTIONS = 4
DEVIATIONS = 1.96
"""How far from the middle of all pairs, in standard deviations of their ranks, the median lies with 95 %."""
SHARE_MAX = 0.02
"""Of a request's CPU: the goal."""


class Often(dict[tuple[str, str], ClientTraffic]):
    """A topic's clients that are counted `MORE` times again with each look-up, by the broker's own code.

    What is compiled cannot be put in another's place, but a dictionary that it looks into can.
    """

    def __init__(self, traffic: Traffic, plain: TopicTraffic) -> None:
        super().__init__(plain.clients)
        self._count, self._plain, self._add, self._nothing = traffic.client, plain, plain.add, TopicTraffic()

    def __getitem__(self, key: tuple[str, str]) -> ClientTraffic:
        count, plain, add, nothing = self._count, self._plain, self._add, self._nothing
        client_id, principal = key
        for _ in range(MORE):
            count(plain, client_id, principal)
            add(nothing)  # seven additions, where a request has two
        return super().__getitem__(key)


def drive(port: int, kind: str) -> None:
    """Send requests for ever, one in flight on each connection."""
    load = Load(kind, port, TOPIC, record_bytes=RECORD_BYTES, batch_bytes=RECORD_BYTES, acks=1)
    write = produce_request(load, 0, batch_of(RECORD_BYTES, RECORD_BYTES))
    connections = [Connection(port) for _ in range(CONNECTIONS)]
    connections[0].send(write)
    connections[0].frame()
    request = write if kind == "produce" else fetch_request(load, 0, 0)
    while True:
        for each in connections:
            each.send(request)
        for each in connections:
            each.frame()


async def blocks(topic: TopicTraffic, traffic: Traffic, pairs: int) -> list[tuple[float, float]]:
    """Return a request's CPU seconds in pairs of blocks: counted once, and `MORE` times more."""
    found: list[tuple[float, float]] = []
    plain = TopicTraffic()
    plain.clients = once = topic.clients
    more = Often(traffic, plain)

    def served() -> int:
        return topic.produces + topic.fetches

    for pair in range(pairs):
        each: dict[bool, float] = {}
        for often in (False, True) if pair % 2 else (True, False):
            topic.clients = more if often else once
            requests, cpu_s = served(), time.process_time()
            await asyncio.sleep(BLOCK_SECONDS)
            requests, cpu_s = served() - requests, time.process_time() - cpu_s
            each[often] = cpu_s / requests if requests else 0.0
        if all(each.values()):
            found.append((each[False], each[True]))
    topic.clients = once
    return found


async def measured(kind: str, folder: Path, pairs: int) -> list[tuple[float, float]]:
    """Start a broker and whoever asks it, and return what `blocks` finds."""
    node = await start_node(folder, "log.retention.check.interval.ms=3600000")
    try:
        port = node.listeners[0].port
        client = Client(f"127.0.0.1:{port}")
        refused = await create_topics(client, [NewTopic(TOPIC, 1)])
        await client.close()
        assert not refused, refused
        command = (sys.executable, "-m", "bench.counting", "--drive", str(port), "--kind", kind)
        driver = await asyncio.create_subprocess_exec(*command)
        try:
            await asyncio.sleep(WARM_SECONDS)
            topic = parts(node).traffic.of(TOPIC)
            return await blocks(topic, parts(node).traffic, pairs)
        finally:
            driver.kill()
            await driver.wait()
    finally:
        await node.stop()


def told(kind: str, found: list[tuple[float, float]]) -> str:
    """Return what pairs say, in a line."""
    once_s = statistics.median(once for once, _ in found)
    costs_s = sorted((often - once) / MORE for once, often in found)
    aside = int(DEVIATIONS * math.sqrt(len(found)) / 2) + 1
    middle = len(found) // 2
    low, cost_s, high = (
        costs_s[max(0, middle - aside)],
        statistics.median(costs_s),
        costs_s[min(len(costs_s) - 1, middle + aside)],
    )
    share, goal = cost_s / once_s, "kept" if cost_s / once_s <= SHARE_MAX else "missed"
    return (
        f"{kind}: {once_s * 1e6:.1f} µs of CPU a request, counting {cost_s * 1e6:.2f} µs (by 95 % between "
        f"{low * 1e6:.2f} and {high * 1e6:.2f}), {share:.2%} of it; {len(found)} pairs; at most {SHARE_MAX:.0%}: {goal}"
    )


def main(argv: list[str]) -> int:
    """Measure and print; returns 0 whatever was measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.counting", description=__doc__)
    parser.add_argument(
        "--pairs", type=int, default=PAIRS, help=f"pairs of blocks of {BLOCK_SECONDS} s (default: {PAIRS})"
    )
    parser.add_argument("--kind", choices=KINDS, help="only these requests")
    parser.add_argument("--drive", type=int, help=argparse.SUPPRESS, metavar="PORT")
    args = parser.parse_args(argv)
    if args.drive is not None:
        drive(args.drive, args.kind)
    print(f"hot modules: {build_mode()}")
    for kind in [args.kind] if args.kind else KINDS:
        with TemporaryDirectory() as folder:
            print(told(kind, asyncio.run(measured(kind, Path(folder), args.pairs))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
