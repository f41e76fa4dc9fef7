"""Which way an application is executed, and why: `execution=auto|micro-batch|continuous`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.base import ConfigError
from ottla.spark.masters import local_slots
from ottla.spark.streams.progress import OWN_WORDS
from ottla.streams import Stages, StreamsSettings, Topology, can_evaluate, cut, is_native

__all__ = [
    "CONTINUOUS",
    "EXECUTION",
    "MICRO_BATCH",
    "Mode",
    "batches",
    "choose",
    "continuous_hosts",
    "execution_mode",
    "slots_of",
    "why_batches",
    "why_not_continuous",
]

EXECUTION = "execution"
HOSTS = "num.stream.threads"
MICRO_BATCH, CONTINUOUS = "micro-batch", "continuous"
BACKLOG_RECORDS = 1_000_000
"""Records that wait at the start above which `auto` begins in micro-batches: a host takes some seconds for so many."""
STATE_SHARE = 4
"""Slots of micro-batches that one host makes up for where Python keeps state by the source's own keys.

Measured for one plan only, an aggregate of a function at 100,000 keys, on a machine that others shared: 1.4 to 2.9 us of
processor time a record in two hosts, 12 to 14 in micro-batches, the JVM's warming up with it. Joins and processors were not
measured.
"""
CONNECT = "sc://"
BY_ITSELF = "execution=auto: results in milliseconds"


@dataclass(frozen=True, slots=True)
class Mode:
    """A way of executing, and why it is this one."""

    name: str
    why: str

    @property
    def is_continuous(self) -> bool:
        """Whether the engine runs in long-running tasks."""
        return self.name == CONTINUOUS


def why_not_continuous(topology: Topology, settings: StreamsSettings) -> str | None:
    """Return what stands against hosts running a plan, with the step's or the setting's name; None where nothing does."""
    reasons = can_evaluate(topology)
    if reasons:
        return f"{reasons[0]} without Spark's own operators"
    if str(settings["spark.master"]).startswith(CONNECT):
        return "a session of Spark Connect runs no hosts"
    return None


def why_batches(stages: Stages, backlog: Callable[[], int], *, hosts: int = 1, slots: int | None = None) -> str | None:
    """Return why `auto` begins in micro-batches though hosts could run a plan; None where it begins with them.

    `hosts` is how many there would be, `slots` how many tasks micro-batches would run at once, None where nobody knows.
    """
    hosts_do = slots is not None and slots <= hosts * _share(stages)
    if is_native(stages) and not hosts_do:
        return (
            "every step is Spark's own: micro-batches carry more records; execution=continuous answers in milliseconds"
        )
    if not hosts_do and (waiting := backlog()) > BACKLOG_RECORDS:
        return f"{waiting:,} records wait in its topics, for which micro-batches are quicker"
    return None


def _share(stages: Stages) -> int:
    """Return how many slots of micro-batches a host makes up for: none where a shuffle saves the plan its topics."""
    if stages.repartition_topics or any(each.fused for each in stages.stages):
        return 0
    return STATE_SHARE if any(each.kind == "stateful" for each in stages.stages) else 1


def continuous_hosts(settings: StreamsSettings) -> int:
    """Return how many hosts an application has: one Python process, and one core at most, for each stream thread."""
    return max(1, int(settings[HOSTS]))


def slots_of(settings: StreamsSettings) -> int | None:
    """Return how many tasks run at once, by the settings; None for a cluster that gives whatever it has."""
    found = local_slots(str(settings["spark.master"]).strip())
    if found is None:
        most = str(settings.spark.get("spark.cores.max", ""))
        return int(most) if most.isascii() and most.isdigit() else None
    return found


def choose(
    settings: StreamsSettings,
    topology: Topology,
    plan: Mapping[str, Any] | None = None,
    words: Collection[str] = (),
    *,
    why_batches: Callable[[], str | None] = lambda: None,
) -> Mode:
    """Return how an application is executed. Raises ConfigError for what was asked for and cannot be.

    `plan` is what its last start has noted, `words` stand beside the offsets that its group has committed: an application
    stays with the mode that it has begun in, since the other one would not find its records in the same topics. `auto`
    begins continuous unless something stands against it, or `why_batches` says why not.
    """
    wanted = str(settings[EXECUTION])
    was_continuous = (plan or {}).get(EXECUTION) == CONTINUOUS or any(
        each.startswith(f"{OWN_WORDS} ") for each in words
    )
    was_batches = not was_continuous and (plan is not None or OWN_WORDS in words)
    cannot = why_not_continuous(topology, settings)
    if wanted == MICRO_BATCH:
        if was_continuous:
            raise ConfigError(EXECUTION, wanted, "", _stays(settings, CONTINUOUS, wanted))
        return Mode(MICRO_BATCH, "execution=micro-batch")
    if wanted == CONTINUOUS:
        if was_batches:
            raise ConfigError(EXECUTION, wanted, "", _stays(settings, MICRO_BATCH, wanted))
        if cannot is not None:
            raise ConfigError(EXECUTION, wanted, "", f"{EXECUTION}={wanted}: {cannot}")
        return Mode(CONTINUOUS, "execution=continuous")
    if was_continuous:
        return Mode(CONTINUOUS, "it has begun so, and stays there")
    if was_batches:
        return Mode(MICRO_BATCH, "it has begun so, and stays there")
    why = cannot or why_batches()
    return Mode(MICRO_BATCH, why) if why is not None else Mode(CONTINUOUS, BY_ITSELF)


def _stays(settings: StreamsSettings, was: str, wanted: str) -> str:
    return (
        f"{EXECUTION}={wanted}: application {settings.application_id} has begun in mode {was}, where its records go by "
        f"other topics: leave it there ({EXECUTION}={was} or auto), stop it and have it go on in the other mode "
        "with `ottla streams promote`, or begin anew with `ottla streams reset`"
    )


def batches(stages: Stages, settings: StreamsSettings, backlog: Callable[[], int]) -> str | None:
    """Return `why_batches` for the hosts and the slots that settings say."""
    return why_batches(stages, backlog, hosts=continuous_hosts(settings), slots=slots_of(settings))


def execution_mode(topology: Topology, settings: StreamsSettings, waiting: int = 0) -> Mode:
    """Return how a new application would be executed that finds so many records waiting. Raises ConfigError as `choose`."""
    every = not settings.cache
    stages = cut(topology, stream_time=settings["stream.time"], every_update=every)
    return choose(settings, topology, why_batches=lambda: batches(stages, settings, lambda: waiting))
