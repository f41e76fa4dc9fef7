"""Waits end once, by what they wait for or at their deadline, in order."""

from __future__ import annotations

from ottla.replica import DeadlineQueue, KeyedWaits, Wait


def noting(seen: list[tuple[str, bool]], name: str, deadline_s: float, **options: object) -> Wait:
    return Wait(deadline_s, lambda reached: seen.append((name, reached)), **options)  # type: ignore[arg-type]


def test_waits_expire_in_the_order_of_their_deadlines() -> None:
    queue = DeadlineQueue()
    seen: list[tuple[str, bool]] = []
    for name, deadline_s in (("late", 3.0), ("early", 1.0), ("middle", 2.0)):
        queue.add(noting(seen, name, deadline_s))
    assert queue.next_deadline_s() == 1.0
    for wait in queue.expire(2.0):
        wait.finish(False)
    assert seen == [("early", False), ("middle", False)]
    assert queue.next_deadline_s() == 3.0
    assert len(queue) == 1


def test_a_finished_wait_does_not_expire() -> None:
    queue = DeadlineQueue()
    wait = noting([], "done", 1.0)
    queue.add(wait)
    queue.finished(wait)
    assert queue.expire(5.0) == []
    assert queue.next_deadline_s() is None
    assert len(queue) == 0


def test_finished_waits_do_not_pile_up() -> None:
    queue = DeadlineQueue()
    for number in range(10_000):
        wait = noting([], "", 100.0 + number)
        queue.add(wait)
        queue.finished(wait)
    assert len(queue._heap) < 200


def test_finished_waits_of_an_idle_partition_do_not_pile_up_behind_one_that_goes_on() -> None:
    waits: KeyedWaits[str] = KeyedWaits()
    longest = noting([], "longest", 1e9, missing_bytes=1)
    waits.add("p", longest)
    for _ in range(10_000):
        wait = noting([], "", 1.0, missing_bytes=1)
        waits.add("p", wait)
        wait.done = True
    assert len(waits._by_key["p"]) <= 64
    assert waits.take("p") == [longest]


def test_a_produce_wait_ends_when_every_partition_has_reached_its_offset() -> None:
    waits: KeyedWaits[str] = KeyedWaits()
    wait = Wait(1.0, lambda reached: None, required={"a": 10, "b": 5})
    waits.add("a", wait)
    waits.add("b", wait)
    assert waits.reached("a", 9) == []
    assert waits.reached("a", 10) == []
    assert waits.reached("b", 6) == [wait]


def test_a_fetch_wait_ends_when_enough_bytes_came_from_any_partition() -> None:
    waits: KeyedWaits[str] = KeyedWaits()
    wait = Wait(1.0, lambda reached: None, missing_bytes=100)
    waits.add("a", wait)
    waits.add("b", wait)
    assert waits.grew("a", 60) == []
    assert waits.grew("b", 39) == []
    assert waits.grew("a", 1) == [wait]


def test_a_partition_that_goes_takes_its_waits_along() -> None:
    waits: KeyedWaits[str] = KeyedWaits()
    done, open_ = Wait(1.0, lambda reached: None), Wait(1.0, lambda reached: None)
    done.done = True
    waits.add("a", done)
    waits.add("a", open_)
    assert waits.take("a") == [open_]
    assert not waits
