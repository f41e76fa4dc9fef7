"""The two applications of a lanes' world: one copies, one counts. Their functions fail where the world has armed them."""

from __future__ import annotations

from functools import cache

from ottla.spark.continuous.plan import ApplicationPlan, application_plan
from ottla.spark.private_api.workers import pickled
from ottla.streams import StreamsBuilder, StreamsSettings, partition_plan
from tests.sim.process import PROCESS
from tests.streams.lanes.cluster import COPIED, COUNTED, IN

__all__ = ["ARMED", "NAMES", "PARTITIONS", "plan_data", "plan_of"]

NAMES = ("copying", "counting")
PARTITIONS = 2
ARMED: list[tuple[str, str]] = []
"""Applications whose next record fails, each once, and on which host; with an empty name on whichever has one first."""


def _shout(value: str) -> str:
    _fail("copying")
    return value.upper()


def _same(value: str) -> str:
    _fail("counting")
    return value


def _fail(name: str) -> None:
    here = PROCESS.get()
    for each in ((name, ""), (name, "" if here is None else here.name)):
        if each in ARMED:
            ARMED.remove(each)
            raise ValueError("armed")


@cache
def plan_of(name: str, *, exactly_once: bool) -> ApplicationPlan:
    """Return an application's plan."""
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    lines = builder.stream(IN)
    if name == "copying":
        lines.map_values(_shout).to(COPIED)
    else:
        counts = lines.map_values(_same).group_by_key().count(materialized="counts")
        counts.to_stream().to(COUNTED, key_serde="string", value_serde="long")
    settings = StreamsSettings.of(
        {
            "application.id": name,
            "bootstrap.servers": "127.0.0.1:1",
            "processing.guarantee": "exactly_once_v2" if exactly_once else "at_least_once",
            "commit.interval.ms": 100,
            "execution": "continuous",
        }
    )
    topology = builder.build()
    counts_of = dict.fromkeys((IN, COPIED, COUNTED, "counting-counts-changelog"), PARTITIONS)
    return application_plan(topology, settings, partition_plan(topology, {IN: PARTITIONS}), counts_of)


@cache
def plan_data(name: str, *, exactly_once: bool) -> bytes:
    """Return the plan as hosts get it."""
    return pickled(plan_of(name, exactly_once=exactly_once))
