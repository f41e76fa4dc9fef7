"""Standbys: copies of state on other hosts, which follow changelogs and begin where a host is lost."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from ottla.spark import StreamsApplication
from tests.streams.continuous.hosts import ProcessHostJobs
from tests.streams.continuous.worlds import WAIT_SECONDS_MAX, World, counting
from tests.waiting import until

pytestmark = pytest.mark.timeout(240)
BOTH = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
WORDS = [f"w{number}" for number in range(300)]


def works(application: StreamsApplication) -> dict[str, dict[str, object]]:
    found = [work for query in application.status()["queries"] for work in query["works"]]
    return {str(each["task"]): each for each in found}


def has_copies(application: StreamsApplication, updates: int = 0) -> bool:
    """Whether each task with state has a copy on another host that lacks nothing, and all have read so many changes."""
    stateful: list[dict[str, Any]] = [each for task, each in works(application).items() if task.startswith("1_")]
    read = sum(sum(each["standby_updates"].values()) for each in stateful)
    return (
        bool(stateful)
        and read >= updates
        and all(
            each["standbys"] and all(host != str(each["host"]) and lag == 0 for host, lag in each["standbys"].items())
            for each in stateful
        )
    )


@BOTH
def test_a_lost_hosts_works_go_on_where_their_copies_are_and_read_next_to_nothing(world: World, guarantee: str) -> None:
    jobs = ProcessHostJobs()
    application = world.application(
        counting(world.name),
        jobs,
        processing_guarantee=guarantee,
        num_stream_threads=2,
        num_standby_replicas=1,
        state_checkpoint_interval_ms=0,
    )
    application.start()
    world.feed(" ".join(WORDS))
    world.await_counts(**dict.fromkeys(WORDS, 1))
    until(lambda: has_copies(application, len(WORDS)), seconds=WAIT_SECONDS_MAX, what=lambda: str(works(application)))
    owned = {task: each["host"] for task, each in works(application).items() if task.startswith("1_")}
    lost = next(iter(owned.values()))
    os.kill(application.status()["hosts"][lost]["pid"], signal.SIGKILL)  # type: ignore[call-overload]
    world.feed(" ".join(WORDS))
    if guarantee == "exactly_once_v2":
        world.await_counts(**dict.fromkeys(WORDS, 2))
    else:
        until(lambda: all(found[-1] >= 2 for found in world.counts().values()), "all", seconds=WAIT_SECONDS_MAX)
    until(lambda: has_copies(application), seconds=WAIT_SECONDS_MAX, what=lambda: str(works(application)))
    for task, host in owned.items():
        now = works(application)[task]
        assert now["host"] == host or int(str(now["restored"])) < len(WORDS) // 4, (task, now)
