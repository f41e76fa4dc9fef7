"""The life of a consumer group on three brokers: its coordinator, a leader and the controller die, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.chaos.world import World
from tests.compat.brokers import coordinator, create, mend
from tests.compat.group_life import PARTITIONS, SECONDS_MAX, Command, Line, Member, committed, started, until

__all__ = ["live_on_three_brokers"]

BURST = 100
"""Records that are written between two deaths."""


def produce(bootstrap: str, topic: str, first: int) -> None:
    """Write one burst of numbered records to every partition in turn, each on every copy in sync."""
    settings = {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True}
    producer = Producer({**settings, "delivery.timeout.ms": SECONDS_MAX * 1000})
    failed: list[object] = []
    for number in range(first, first + BURST):
        producer.produce(
            topic,
            value=b"%d" % number,
            partition=number % PARTITIONS,
            on_delivery=lambda error, _: failed.append(error) if error is not None else None,
        )
    assert producer.flush(SECONDS_MAX) == 0
    assert not failed, failed[:3]


def live_on_three_brokers(
    world: World,
    topic: str,
    command: Command,
    reader: Callable[[], Line],
    *,
    folder: Path | None = None,
    deaths: tuple[str, ...] = ("coordinator", "leader", "controller"),
) -> None:
    """Put a group of two through the deaths of brokers; AssertionError where a record or a commit is lost."""
    group = f"group-of-{topic}"
    create(world, topic, PARTITIONS)
    members: list[Member] = []

    def values() -> list[int]:
        return [int(value) for each in members for _, _, value in each.records]

    def victim(what: str) -> int:
        found = {
            "coordinator": lambda: coordinator(world, group),
            "leader": lambda: world.leader_of(topic),
            "controller": world.controller,
        }[what]()
        assert found is not None, f"there is no {what}"
        return int(found)

    with ExitStack() as stack:
        for _ in range(2):
            arguments = command(world.bootstrap, topic, group)
            members.append(stack.enter_context(started(arguments, reader(), folder=folder)))
        first, second = members
        until(
            "two members share the partitions",
            lambda: sorted(first.assigned + second.assigned) == [0, 1, 2, 3] and len(second.assigned) == 2,
            members,
        )
        produce(world.bootstrap, topic, 0)
        until("both read what is theirs", lambda: len(set(values())) == BURST, members)
        written = BURST
        for what in deaths:
            dead = victim(what)
            world.kill(dead)
            produce(world.bootstrap, topic, written)
            written += BURST
            until(
                f"the group reads on without its {what}",
                lambda: len(set(values())) == written,  # noqa: B023
                members,
            )
            mend(world, topic, "__consumer_offsets")
        admin = AdminClient({"bootstrap.servers": world.bootstrap})
        until("everything is committed", lambda: committed(admin, group, topic) == written, members)
        arguments = command(world.bootstrap, topic, group)
        first.kill()
        second.kill()
        members.append(stack.enter_context(started(arguments, reader(), folder=folder)))
        third = members[-1]
        produce(world.bootstrap, topic, written)
        until("a new member reads what came meanwhile", lambda: len(set(values())) == written + BURST, members)
        assert min(int(value) for _, _, value in third.records) >= written, "it began again with what was committed"
