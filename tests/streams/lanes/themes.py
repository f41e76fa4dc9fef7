"""What happens in a lanes' world, and how late things come: some worlds have something of everything, others little of it.

A fault that needs two things at once (a work that was given again while the note that it was let go is on its way) is met
sooner by a world of few stories, close together, than by one of all of them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

__all__ = ["STORIES", "THEMES", "Theme", "theme_of"]

STORIES = (
    "feed",
    "kill",
    "cut off",
    "move",
    "pause",
    "fail",
    "fail to restore",
    "remove and add",
    "drain",
    "rejoin",
    "retention",
    "refuse",
    "made again",
)


@dataclass(frozen=True)
class Theme:
    """One kind of world."""

    name: str
    weight: float
    """How often it is drawn, beside the others."""
    stories: tuple[str, ...] = STORIES
    """What may happen; each world says what each of them is."""
    steps: int = 10
    pauses_s: tuple[float, ...] = (0.001, 0.01, 0.05, 0.1, 0.5, 2.0)
    """Between two stories."""
    slow_requests: tuple[float, ...] = (0.02,)
    """The part of requests to the cluster that takes seconds: each world has one of these."""
    slow_messages: tuple[float, ...] = (0.03, 0.03, 0.2)
    """The same of messages between driver and hosts."""
    late_s: tuple[float, ...] = (0.0005, 0.002, 0.02, 0.2)
    """How much later than it could a task goes on at most."""
    late: float = 0.25
    """The part of tasks' steps that are late."""


THEMES = (
    Theme("anything", 1.2),
    Theme("lost hosts", 0.8, stories=("cut off", "cut off", "made again", "rejoin"), pauses_s=(0.05, 0.1, 0.5, 2.0)),
    Theme(
        "retention",
        2.0,
        stories=("retention", "retention ahead", "move", "made again"),
        steps=6,
        pauses_s=(0.05, 0.1, 0.3, 0.5, 1.0),
        late_s=(0.02, 0.2, 0.2),
    ),
    Theme(
        "failures",
        2.0,
        stories=("fail everywhere", "refuse"),
        steps=8,
        pauses_s=(0.3, 0.5, 1.0, 2.0),
        slow_messages=(0.2, 0.4),
        late_s=(0.2,),
        late=0.5,
    ),
    Theme(
        "refusals",
        2.0,
        stories=("refuse",),
        pauses_s=(0.1, 0.3, 0.5, 1.0, 2.0),
        late_s=(0.2,),
        late=0.6,
    ),
)


def theme_of(rng: random.Random) -> Theme:
    """Draw a world's theme."""
    [theme] = rng.choices(THEMES, [each.weight for each in THEMES])
    return theme
