"""Which way an application is executed, and why: `execution=auto|micro-batch|continuous`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.base import ConfigError
from ottla.spark.streams.progress import OWN_WORDS
from ottla.streams import StreamsSettings, Topology, expressions_in

__all__ = ["CONTINUOUS", "EXECUTION", "MICRO_BATCH", "Mode", "choose", "why_not_continuous"]

EXECUTION = "execution"
MICRO_BATCH, CONTINUOUS = "micro-batch", "continuous"
AUTO_SO_FAR = "execution=auto begins in micro-batches"


@dataclass(frozen=True, slots=True)
class Mode:
    """A way of executing, and why it is this one."""

    name: str
    why: str

    @property
    def is_continuous(self) -> bool:
        """Whether the engine runs in long-running tasks."""
        return self.name == CONTINUOUS


def why_not_continuous(topology: Topology) -> str | None:
    """Return why nobody can run a plan without Spark's own operators, by the step's name; None where that is not so."""
    for name, expressions in expressions_in(topology).items():
        return f"step {name} is the column expression {expressions[0]!r}, which only Spark evaluates"
    return None


def choose(
    settings: StreamsSettings, topology: Topology, plan: Mapping[str, Any] | None, words: Collection[str]
) -> Mode:
    """Return how an application is executed. Raises ConfigError for what was asked for and cannot be.

    `plan` is what its last start has noted, `words` stand beside the offsets that its group has committed: an application
    stays with the mode that it has begun in, since the other one would not find its records in the same topics.
    """
    wanted = str(settings[EXECUTION])
    was_continuous = (plan or {}).get(EXECUTION) == CONTINUOUS or any(
        each.startswith(f"{OWN_WORDS} ") for each in words
    )
    was_batches = not was_continuous and (plan is not None or OWN_WORDS in words)
    cannot = why_not_continuous(topology)
    if wanted == MICRO_BATCH:
        if was_continuous:
            raise ConfigError(EXECUTION, wanted, "", _stays(settings, CONTINUOUS, wanted))
        return Mode(MICRO_BATCH, "execution=micro-batch")
    if wanted == CONTINUOUS:
        if was_batches:
            raise ConfigError(EXECUTION, wanted, "", _stays(settings, MICRO_BATCH, wanted))
        if cannot is not None:
            raise ConfigError(EXECUTION, wanted, "", f"{EXECUTION}={wanted}: {cannot}: give a Python function")
        return Mode(CONTINUOUS, "execution=continuous")
    if was_continuous:
        return Mode(CONTINUOUS, "it has begun so, and stays there")
    if was_batches:
        return Mode(MICRO_BATCH, "it has begun so, and stays there")
    return Mode(MICRO_BATCH, cannot or AUTO_SO_FAR)


def _stays(settings: StreamsSettings, was: str, wanted: str) -> str:
    return (
        f"{EXECUTION}={wanted}: application {settings.application_id} has begun in mode {was}, where its records go by "
        f"other topics: leave it there ({EXECUTION}={was} or auto), or begin anew with `ottla streams reset`"
    )
