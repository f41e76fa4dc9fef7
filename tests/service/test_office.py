"""An office has one holder: who is chosen takes it, and gives it up when the group, a session or a refusal says so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from ottla.base import ErrorCode, KafkaError
from ottla.client import JoinedGeneration, JoinedMember
from ottla.service import Membership, Office, Outcome, office
from tests.schedules import Schedule
from tests.sim.loop import SimLoop

MEMBERSHIP = Membership("g", "test", "v0", b"me", 6_000, 10_000, 1_000)


@dataclass
class Rounds:
    """What the group answers to each join in turn (the last for ever), and when it was asked."""

    answers: list[str | Exception | None]
    asked_at: list[float] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)


class Member:
    """A member of a group whose rounds are written down; it stands where `GroupMember` does."""

    def __init__(self, rounds: Rounds, wake: Callable[[], None], lost: Callable[[], None]) -> None:
        self.rejoins = True
        self._rounds, self._wake, self.lose = rounds, wake, lost
        rounds.members.append(self)

    async def join(self, offered: Any, assign: Any) -> JoinedGeneration | None:
        self._rounds.asked_at.append(asyncio.get_running_loop().time())
        answers = self._rounds.answers
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(found, Exception):
            raise found
        if found is None:
            return None
        self.rejoins = False
        assign("v0", 1, [JoinedMember("me", b"")])
        return JoinedGeneration(1, "me", found, "v0", b"")

    def start_heartbeats(self) -> None: ...

    def hurry(self) -> None: ...

    def request_rejoin(self, reason: str) -> None:
        self.rejoins = True
        self._wake()

    async def close(self) -> None: ...


@dataclass
class Held:
    """What an office has told its service, in order."""

    told: list[str] = field(default_factory=list)
    failing: int = 0
    taking_s: float = 0.0

    async def take(self) -> None:
        await asyncio.sleep(self.taking_s)
        if self.failing:
            self.failing -= 1
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "not yet")
        self.told.append("take")

    def leave(self) -> None:
        self.told.append("leave")


def run(
    monkeypatch: pytest.MonkeyPatch,
    rounds: Rounds,
    held: Held,
    body: Callable[[Office[str]], Awaitable[None]],
    seed: int | None = None,
) -> None:
    """Run a story in virtual time, in an order of a seed's choice where there is one."""

    def member(client: Any, group: str, *, wake: Any, lost: Any, **rest: Any) -> Member:
        return Member(rounds, wake, lost)

    monkeypatch.setattr(office, "GroupMember", member)

    async def whole() -> None:
        def choose(members: Sequence[JoinedMember]) -> Mapping[str, bytes]:
            return {each.member_id: b"" for each in members}

        def read(joined: JoinedGeneration) -> Outcome[str]:
            return Outcome(joined.leader, joined.leader == "me")

        made: Office[str] = Office(
            None,
            MEMBERSHIP,
            serves="the test",
            choose=choose,
            read=read,
            take=held.take,
            leave=held.leave,  # type: ignore[arg-type]
        )
        made.start()
        async with asyncio.timeout(3_600):
            await body(made)
        await made.close()

    loop = SimLoop(None if seed is None else Schedule.drawn(Random(seed)))
    try:
        loop.run_until_complete(whole())
        assert not loop.errors
    finally:
        loop.close()


async def holder(found: Office[str], name: str | None, *, is_held: bool) -> None:
    async with found.changed:
        await found.changed.wait_for(lambda: (found.holder, found.is_held) == (name, is_held))


def test_who_is_chosen_takes_the_office_and_leaves_it_when_another_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds, held = Rounds(["me", "other"]), Held()

    async def body(found: Office[str]) -> None:
        await holder(found, "me", is_held=True)
        rounds.members[0].request_rejoin("another has come")
        await holder(found, "other", is_held=False)

    run(monkeypatch, rounds, held, body)
    assert held.told == ["take", "leave"]


def test_a_holder_that_stays_the_holder_does_not_take_the_office_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds, held = Rounds(["me"]), Held()

    async def body(found: Office[str]) -> None:
        await holder(found, "me", is_held=True)
        rounds.members[0].request_rejoin("another has come")
        await asyncio.sleep(10)
        assert found.is_held and found.times_taken == 1 and len(rounds.asked_at) == 2

    run(monkeypatch, rounds, held, body)
    assert held.told == ["take", "leave"]


def test_rounds_that_come_to_nothing_are_tried_again_after_pauses_that_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds, held = Rounds([None]), Held()

    async def body(found: Office[str]) -> None:
        await asyncio.sleep(60)

    run(monkeypatch, rounds, held, body)
    pauses = [later - earlier for earlier, later in zip(rounds.asked_at, rounds.asked_at[1:], strict=False)]
    assert pauses[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8], abs=0.01) and pauses[-1] == pytest.approx(2.0, abs=0.01)
    assert not held.told


def test_an_office_that_cannot_be_taken_yet_is_tried_again_without_another_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds, held = Rounds(["me"]), Held(failing=3)

    async def body(found: Office[str]) -> None:
        await holder(found, "me", is_held=True)

    run(monkeypatch, rounds, held, body)
    assert len(rounds.asked_at) == 1 and held.told == ["take", "leave"]


def test_a_lost_session_ends_the_office_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds, held = Rounds(["me", "other"]), Held()

    async def body(found: Office[str]) -> None:
        await holder(found, "me", is_held=True)
        rounds.members[0].rejoins = True
        rounds.members[0].lose()
        assert not found.is_held and held.told == ["take", "leave"]
        await holder(found, "other", is_held=False)

    run(monkeypatch, rounds, held, body)
    assert held.told == ["take", "leave"]


@pytest.mark.parametrize("seed", range(60))
def test_in_any_order_each_take_has_its_leave_and_nobody_holds_what_was_lost(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = Random(seed)
    refused = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody")
    answers = [rng.choice(("me", "me", "other", None, refused)) for _ in range(20)]
    rounds, held = Rounds([*answers, "me"]), Held(failing=rng.randrange(3), taking_s=rng.choice((0.0, 0.01, 0.5)))

    async def body(found: Office[str]) -> None:
        for _ in range(30):
            await asyncio.sleep(rng.random())
            member = rounds.members[0]
            if rng.random() < 0.5:
                found.step_down("refused")
            elif rng.random() < 0.5:
                member.request_rejoin("a change")
            else:
                member.rejoins = True
                member.lose()
                assert not found.is_held
            balance = held.told.count("take") - held.told.count("leave")
            assert balance == int(found.is_held), (balance, found.is_held, held.told)
        await holder(found, "me", is_held=True)

    run(monkeypatch, rounds, held, body, seed)
    assert held.told.count("take") == held.told.count("leave") and held.told[0] == "take"
