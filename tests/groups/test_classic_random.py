"""A classic group under fire: 200 members join, leave, die and fall silent at random, under coordinators that change.

Each member does what Kafka's clients do with the answers. Whatever happens, no partition has two owners in one generation as
the coordinator gave them out, the log says what the coordinator knows, and when it is quiet at last everyone is in.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.base import ErrorCode
from ottla.groups import ClassicGroup
from tests.groups.classic import World

MEMBERS = 200
PARTITIONS = 256
SESSION_MS = 30_000
REBALANCE_MS = 4_000
NONE, UNKNOWN, ILLEGAL, REBALANCING, REQUIRED = (
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MEMBER_ID_REQUIRED,
)


class Client:
    """One consumer: what it waits for, and what it believes."""

    def __init__(self, run: Run, name: str, instance: str | None) -> None:
        self.run, self.name, self.instance = run, name, instance
        self.member_id = ""
        self.generation = -1
        self.owned: frozenset[int] = frozenset()
        self.joining: int | None = None
        self.syncing: int | None = None
        self.wants_join = True

    def step(self) -> None:
        """Do the next thing: read an answer, or ask something."""
        world = self.run.world
        if self.joining is not None:
            answer = world.answers.get(self.joining)
            if answer is not None:
                self.joining = None
                self._joined(answer)
        elif self.syncing is not None:
            answer = world.answers.get(self.syncing)
            if answer is not None:
                self.syncing = None
                self._synced(answer)
        elif self.wants_join:
            self.joining = world.join(
                self.member_id,
                session_ms=SESSION_MS,
                rebalance_ms=REBALANCE_MS,
                instance=self.instance,
                client=self.name,
            )
        else:
            code = world.heartbeat(self.member_id, self.generation, instance=self.instance)
            self._refused(ErrorCode(code))

    def _refused(self, code: ErrorCode) -> None:
        if code is NONE:
            return
        assert code in (UNKNOWN, ILLEGAL, REBALANCING, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.NOT_COORDINATOR), code
        if code in (UNKNOWN, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id = ""
        self.wants_join = True

    def _joined(self, answer: Any) -> None:
        if answer.error_code == REQUIRED:
            self.member_id = answer.member_id
            return
        if answer.error_code:
            self._refused(ErrorCode(answer.error_code))
            return
        self.member_id, self.generation, self.wants_join = answer.member_id, answer.generation_id, False
        plan = None
        if answer.leader == self.member_id and not answer.skip_assignment:
            ids = sorted(each.member_id for each in answer.members)
            plan = {each: bytes(range(at, PARTITIONS, len(ids))) for at, each in enumerate(ids)}
        self.syncing = self.run.world.sync(self.member_id, self.generation, plan, instance=self.instance)

    def _synced(self, answer: Any) -> None:
        if answer.error_code:
            self._refused(ErrorCode(answer.error_code))
            return
        self.owned = frozenset(answer.assignment)
        self.run.took(self)


class Run:
    """The world, its clients, and who was given what."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.world = World(seed, group_initial_rebalance_delay_ms=1_000)
        self.clients: list[Client] = []
        self.owners: dict[tuple[int, int], str] = {}
        self._names = 0

    def took(self, client: Client) -> None:
        """Note what a member was given in a generation: nobody else has it, but its own next incarnation."""
        who = client.instance or client.member_id
        for partition in client.owned:
            assert self.owners.setdefault((client.generation, partition), who) == who

    def add(self) -> None:
        self._names += 1
        instance = f"static-{self._names}" if self.rng.random() < 0.2 else None
        self.clients.append(Client(self, f"c{self._names}", instance))

    def mishap(self) -> None:
        """Let something happen to somebody."""
        chance = self.rng.random()
        client = self.rng.choice(self.clients)
        if chance < 0.4:
            self.clients.remove(client)  # it dies without a word
            if client.instance is not None:
                self.clients.append(Client(self, client.name, client.instance))  # and is started again
            else:
                self.add()
        elif chance < 0.7 and client.member_id and client.joining is None and client.syncing is None:
            self.world.leave((client.member_id, client.instance))
            self.clients.remove(client)
            self.add()
        elif chance < 0.75:
            self.world.take_over()
            for each in self.clients:
                if each.joining is not None or each.syncing is not None:
                    each.joining = each.syncing = None
                    each.wants_join = True
        else:
            client.wants_join = True

    def check_log(self) -> None:
        """What the log says of a stable or empty group is what its coordinator knows."""
        group = self.world.group()
        if not isinstance(group, ClassicGroup) or group.state_name() not in ("Stable", "Empty"):
            return
        stored = self.world.replayed().groups["g"]
        assert isinstance(stored, ClassicGroup)
        assert (stored.state, stored.generation, stored.leader) == (group.state, group.generation, group.leader)
        known = {each.member_id: (each.instance_id, each.assignment) for each in group.members.values()}
        assert {each.member_id: (each.instance_id, each.assignment) for each in stored.members.values()} == known

    def settle(self) -> None:
        for _ in range(400):
            for client in self.clients:
                client.step()
            self.world.pass_ms(500)


@pytest.mark.parametrize("seed", range(3))
def test_no_partition_has_two_owners_in_one_generation(seed: int) -> None:
    run = Run(seed)
    for _ in range(MEMBERS):
        run.add()
    for _ in range(1_000):
        for client in run.rng.sample(run.clients, 100):
            client.step()
        if run.rng.random() < 0.05:
            run.mishap()
        run.world.pass_ms(run.rng.randrange(400))
    run.check_log()
    run.settle()
    run.check_log()
    group = run.world.group()
    assert group.state_name() == "Stable"
    assert group.generation > 5, group.generation
    assert set(group.members) == {each.member_id for each in run.clients}
    assert {partition for each in run.clients for partition in each.owned} == set(range(PARTITIONS))
    assert sum(len(each.owned) for each in run.clients) == PARTITIONS
