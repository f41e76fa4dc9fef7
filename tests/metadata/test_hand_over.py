"""A copy goes only when its broker knows that it does not lead: which elections come first, and who is waited for."""

from __future__ import annotations

from typing import Any

from ottla.base import NodeId
from ottla.metadata import Image, decide
from tests.metadata.clusters import after, cluster, topic, with_topics
from tests.metadata.moves import alter, fence, part, reassign


def three() -> Image:
    return with_topics(cluster(1, 2, 3, 4), topic("a", assignments={0: [1, 2, 3]}))


def stepped(image: Image, *target: int, known: set[int] | None = None, knowing: int | None = None) -> Any:
    knowing_id = None if knowing is None else NodeId(knowing)
    return decide.hand_over(
        image, reassign(image, list(target)), lambda each, _: each.broker_id in (known or set()), knowing=knowing_id
    )


def test_another_leads_before_the_leaders_copy_goes() -> None:
    image = three()
    first = stepped(image, 3, 2, known={1})
    assert isinstance(first.response, decide.HandOver)
    image = after(image, first)
    assert first.response.offset == image.offset
    assert (part(image).leader, part(image).isr, part(image).replicas) == (3, (1, 2, 3), (1, 2, 3)), (
        "as the target has it"
    )
    assert stepped(image, 3, 2).response.departures == first.response.departures, "it is waited for once"
    image = after(image, stepped(image, 3, 2, known={1}))
    assert (part(image).leader, part(image).isr, part(image).replicas) == (3, (2, 3), (3, 2))


def test_who_was_fenced_is_not_waited_for() -> None:
    image = fence(three(), 1)
    assert not isinstance(stepped(image, 2, 3).response, decide.HandOver)


def test_a_follower_is_waited_for_since_it_may_take_itself_for_the_leader() -> None:
    waits = stepped(three(), 1, 2)
    assert waits.records == ()
    assert {each.broker_id for each in waits.response.departures} == {3}
    assert not isinstance(stepped(three(), 1, 2, known={3}).response, decide.HandOver)


def test_a_leader_that_asks_for_the_end_of_its_reassignment_knows() -> None:
    image = after(three(), reassign(three(), [4, 2, 3]))
    last = alter(image, 1, 2, 3, 4)
    taken = decide.hand_over(image, last, lambda *_: False, knowing=NodeId(1))
    assert taken.records == last.records
    assert part(after(image, last)).replicas == (4, 2, 3)


def test_a_smaller_isr_waits_for_nobody() -> None:
    shrunk = alter(three(), 1, 2)
    assert decide.hand_over(three(), shrunk, lambda *_: False, knowing=NodeId(1)).records == shrunk.records
