"""What the page of dead letters asks: which topics hold some, and what is the matter with them. It reads as who asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ottla.admin import dead_letters, grouped_letters, is_dead_letter_topic, redriven
from ottla.client import BlockingClient
from ottla.console.api.endpoints import Endpoint
from ottla.console.figures.views import topic_rows
from ottla.console.places import Place
from ottla.console.records.rows import Decoders, row_of
from ottla.http import HttpError, Reply, Request, Who, json_reply

__all__ = ["check_letters", "letter_endpoints", "letters_in_turn"]

GROUPS_MAX = 100
AT_ONCE = 2
"""Requests that hold dead letters at a time, each some 64 MiB of them at most."""
TURN_SECONDS_MAX = 15.0


def letter_endpoints() -> list[Endpoint]:
    """Return the part of the table."""
    return [
        Endpoint("GET", "/dlq", "Topics whose names say that they hold dead letters", _topics, Who.SESSION),
        Endpoint("GET", "/dlq/{topic}", "A topic's newest dead letters by their causes", _letters, Who.SESSION),
    ]


def check_letters(place: Place, topic: str) -> None:
    """Raise HttpError for a topic with masks: what its letters say, and where they go, would show what is hidden."""
    if place.hidden(topic) is not None:
        raise HttpError(
            403, f"Parts of {topic} are masked here: its letters are not shown, nor sent back", error_code=40302
        )


async def _topics(place: Place, request: Request) -> Reply:
    rows = [each for each in topic_rows(await place.seen()) if is_dead_letter_topic(str(each["name"]))]
    return json_reply({"items": sorted(rows, key=lambda each: -int(str(each["records"])))})


async def _letters(place: Place, request: Request) -> Reply:
    topic = request.match_info["topic"]
    check_letters(place, topic)

    def ask(client: BlockingClient) -> dict[str, object]:
        found = dead_letters(client, topic)
        letters = found.letters
        groups = grouped_letters(letters, redriven(client, topic))
        return {
            "topic": topic,
            "letters": len(letters),
            "groups": [
                {
                    "cause": each.cause,
                    "count": each.count,
                    "done": each.done,
                    "first_ms": each.first_ms,
                    "last_ms": each.last_ms,
                    "origins": dict(each.origins),
                    "family": each.example.family,
                    "exception": each.example.exception,
                    "message": each.example.message[:2000],
                    "example": row_of(each.example.place.partition, each.example.record, Decoders()),
                }
                for each in groups[:GROUPS_MAX]
            ],
            "left_out": max(0, len(groups) - GROUPS_MAX),
            "cut_after_bytes": found.cut_after,
        }

    async with letters_in_turn():
        return json_reply(await place.cluster.admin(ask))


@asynccontextmanager
async def letters_in_turn() -> AsyncIterator[None]:
    """Wait for one's turn to hold letters: few do at a time, whoever asks. Raises HttpError where that takes too long."""
    try:
        async with asyncio.timeout(TURN_SECONDS_MAX):
            await _turns.acquire()
    except TimeoutError:
        raise HttpError(503, f"{AT_ONCE} others read dead letters: ask again") from None
    try:
        yield
    finally:
        _turns.release()


_turns = asyncio.Semaphore(AT_ONCE)
