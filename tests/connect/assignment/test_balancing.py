"""How work is divided among workers: what stays, moves and waits; and the same as Kafka's own assignor, round by round."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from ottla.connect.assignment import Balance, Division, Work, divide, divide_eagerly
from ottla.connect.storage import TaskId
from tests.peer.connect import oracle

DELAY_MS = 3000


def configured(tasks: Mapping[str, int]) -> Work:
    """Return the work of connectors with so many tasks each."""
    return Work(
        tuple(sorted(tasks)), tuple(TaskId(name, each) for name in sorted(tasks) for each in range(tasks[name]))
    )


class Cluster:
    """Workers that obey, and the leader's memory."""

    def __init__(self, *workers: str, delay_ms: int = DELAY_MS) -> None:
        self.held = dict.fromkeys(workers, Work())
        self.balance, self.delay_ms, self.now_ms, self.generation = Balance(), delay_ms, 1000, 0

    def round(self, tasks: Mapping[str, int]) -> Division:
        """Divide once, and let the workers obey."""
        self.balance, division = divide(
            *(self.balance, configured(tasks), self.held),
            last_generation=self.generation if self.generation else -1,
            generation=self.generation + 1,
            now_ms=self.now_ms,
            max_delay_ms=self.delay_ms,
        )
        self.generation += 1
        self.held = dict(division.whole)
        return division

    def settle(self, tasks: Mapping[str, int]) -> int:
        """Divide until nothing is taken away; returns how many rounds that took."""
        for rounds in range(1, 10):
            division = self.round(tasks)
            if division.delay_ms:
                self.now_ms += division.delay_ms
            elif not any(division.revoked.values()):
                return rounds
        raise AssertionError("the workers never come to rest")

    def sizes(self) -> list[tuple[int, int]]:
        """Return how many connectors and tasks each worker has."""
        return [(len(work.connectors), len(work.tasks)) for work in self.held.values()]


def test_new_work_goes_to_those_that_have_least() -> None:
    cluster = Cluster("a", "b", "c")
    cluster.settle({"x": 3, "y": 3})
    assert sorted(cluster.sizes()) == [(0, 2), (1, 2), (1, 2)]


def test_a_new_worker_gets_its_share_and_nothing_else_moves() -> None:
    cluster = Cluster("a", "b")
    cluster.settle({"x": 6})
    before = dict(cluster.held)
    cluster.held["c"] = Work()
    first = cluster.round({"x": 6})
    assert sum(len(work.tasks) for work in first.revoked.values()) == 2 and not any(first.assigned.values())
    cluster.settle({"x": 6})
    assert [tasks for _, tasks in cluster.sizes()] == [2, 2, 2]
    assert all(set(cluster.held[each].tasks) <= set(before[each].tasks) for each in "ab")


def test_lost_work_waits_for_its_worker_and_then_goes_to_the_others() -> None:
    cluster = Cluster("a", "b")
    cluster.settle({"x": 4})
    gone = cluster.held.pop("b")
    waiting = cluster.round({"x": 4})
    assert waiting.delay_ms == DELAY_MS and not any(waiting.assigned.values())
    cluster.now_ms += DELAY_MS
    cluster.round({"x": 4})
    assert set(gone.tasks) <= set(cluster.held["a"].tasks)


def test_a_worker_that_comes_back_in_time_gets_its_work_back() -> None:
    cluster = Cluster("a", "b")
    cluster.settle({"x": 4})
    gone = cluster.held.pop("b")
    cluster.round({"x": 4})
    cluster.held["b2"] = Work()
    cluster.now_ms += DELAY_MS // 2
    assert cluster.round({"x": 4}).delay_ms == DELAY_MS // 2
    cluster.now_ms += DELAY_MS
    cluster.round({"x": 4})
    assert set(cluster.held["b2"].tasks) == set(gone.tasks)


def test_without_delay_lost_work_moves_at_once() -> None:
    cluster = Cluster("a", "b", delay_ms=0)
    cluster.settle({"x": 4})
    cluster.held.pop("b")
    assert cluster.round({"x": 4}).delay_ms == 0
    assert len(cluster.held["a"].tasks) == 4


def test_what_two_workers_have_is_taken_from_both_and_given_to_one() -> None:
    cluster = Cluster("a", "b")
    cluster.settle({"x": 2})
    twice = Work(tasks=(TaskId("x", 0),))
    cluster.held = {worker: work.plus(twice) for worker, work in cluster.held.items()}
    taken = cluster.round({"x": 2})
    assert all(TaskId("x", 0) in work.tasks for work in taken.revoked.values())
    cluster.settle({"x": 2})
    assert sorted(task for work in cluster.held.values() for task in work.tasks) == [TaskId("x", 0), TaskId("x", 1)]


def test_deleted_work_is_taken_away() -> None:
    cluster = Cluster("a", "b")
    cluster.settle({"x": 2, "y": 2})
    cluster.settle({"y": 2})
    assert sorted(each for work in cluster.held.values() for each in work.connectors) == ["y"]


def test_version_0_gives_everything_out_anew_round_the_workers() -> None:
    found = divide_eagerly(configured({"x": 2, "y": 1}), ["b", "a"])
    assert found.assigned == {
        "a": Work(("x",), (TaskId("x", 0), TaskId("y", 0))),
        "b": Work(("y",), (TaskId("x", 1),)),
    }


def _form(work: Mapping[str, Work]) -> dict[str, Any]:
    return {worker: [list(each.connectors), [list(task) for task in each.tasks]] for worker, each in work.items()}


def _sets(form: Mapping[str, Any]) -> dict[str, Any]:
    return {worker: [sorted(connectors), sorted(tasks)] for worker, (connectors, tasks) in form.items()}


@pytest.mark.peer
@pytest.mark.slow
def test_every_round_divides_as_kafka_does() -> None:
    with oracle("GroupOracle.java") as ask:
        for seed in range(150):
            chance = random.Random(seed)
            _compare_history(chance, ask, f"seed {seed}")


def _compare_history(chance: random.Random, ask: Any, seed: str) -> None:
    """Compare rounds in which connectors come and go, workers too, and some workers do not hear what they were to do."""
    delay_ms = chance.choice((0, 40, 3000))
    ask({"what": "leader", "delay": delay_ms})
    balance, now_ms = Balance(), 1000
    tasks: dict[str, int] = {}
    held = {"a": Work()}
    last = -1
    for generation in range(1, 13):
        now_ms += chance.choice((0, 1, 40, 1600, 3000))
        if chance.random() < 0.5:
            tasks[chance.choice("uvwxyz")] = chance.randrange(5)
        elif tasks and chance.random() < 0.3:
            del tasks[chance.choice(sorted(tasks))]
        if chance.random() < 0.25:
            held.setdefault(chance.choice("abcdef"), Work())
        elif len(held) > 1 and chance.random() < 0.2:
            del held[chance.choice(sorted(held))]
        held = {worker: held[worker] for worker in sorted(held)}
        if chance.random() < 0.1:
            last = -1
        theirs = ask(
            {
                "what": "divide",
                "configured": tasks,
                "members": _form(held),
                "now": now_ms,
                "last": last,
                "generation": generation,
            }
        )
        balance, ours = divide(
            *(balance, configured(tasks), held),
            last_generation=last,
            generation=generation,
            now_ms=now_ms,
            max_delay_ms=delay_ms,
        )
        assert _sets(_form(ours.assigned)) == _sets(theirs["newlyAssigned"]), seed
        assert _sets(_form(ours.revoked)) == _sets(theirs["newlyRevoked"]), seed
        assert _sets(_form(ours.whole)) == _sets(theirs["allAssigned"]), seed
        assert ours.delay_ms == theirs["delay"], seed
        last = generation
        deaf = {worker for worker in held if chance.random() < 0.1}
        held = {worker: held[worker] if worker in deaf else ours.whole[worker] for worker in held}
