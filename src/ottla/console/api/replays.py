"""What the page of replays asks: jobs with how far they are, and that one is paused, gone on with, or cancelled."""

from __future__ import annotations

from ottla.console.api.endpoints import Endpoint
from ottla.console.places import Place
from ottla.console.records.replay_jobs import ReplayJobs
from ottla.http import HttpError, Reply, Request, Who, json_reply

__all__ = ["replay_endpoints"]


def replay_endpoints() -> list[Endpoint]:
    """Return the part of the table."""
    one = "/replays/{replay}"
    return [
        Endpoint("GET", "/replays", "Replays, and how far each is", _replays, Who.SESSION),
        Endpoint("POST", f"{one}/pause", "Stop a replay where it is", _pause, Who.SESSION, body={}, changes=True),
        Endpoint(
            "POST", f"{one}/resume", "Go on with a replay, as who asks", _resume, Who.SESSION, body={}, changes=True
        ),
        Endpoint(
            "POST",
            f"{one}/cancel",
            "End a replay; what it has written stays",
            _cancel,
            Who.SESSION,
            body={},
            changes=True,
        ),
    ]


async def _jobs(place: Place) -> tuple[ReplayJobs, list[dict[str, object]]]:
    """Return the jobs, and those that may be seen: of topics that may be described."""
    if place.replays is None:
        raise HttpError(404, "Nothing is replayed here: ottla.console.jobs.topic is empty")
    rows = place.replays.rows()
    if place.login is not None:
        topics = (await place.allowed()).topics
        rows = [row for row in rows if row["source"] in topics and row["target"] in topics]
    return place.replays, rows


async def _replays(place: Place, request: Request) -> Reply:
    _, rows = await _jobs(place)
    return json_reply({"items": rows})


async def _named(place: Place, request: Request) -> tuple[ReplayJobs, str]:
    """Return the jobs and the name of one; raises HttpError unless it is the caller's or who calls may alter the cluster."""
    jobs, rows = await _jobs(place)
    name = request.match_info["replay"]
    row = next((each for each in rows if each["id"] == name), None)
    if row is None:
        raise HttpError(404, f"There is no replay {name}")
    if place.login is not None and row["who"] != place.who and "ALTER" not in (await place.allowed()).cluster:
        raise HttpError(403, f"The replay is {row['who']}'s: it needs ALTER on the cluster", error_code=40300)
    return jobs, name


async def _pause(place: Place, request: Request) -> Reply:
    jobs, name = await _named(place, request)
    await jobs.pause(name)
    return await _replays(place, request)


async def _resume(place: Place, request: Request) -> Reply:
    jobs, name = await _named(place, request)
    await jobs.resume(place, name)
    return await _replays(place, request)


async def _cancel(place: Place, request: Request) -> Reply:
    jobs, name = await _named(place, request)
    await jobs.cancel(name)
    return await _replays(place, request)
