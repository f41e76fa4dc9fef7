"""When a failed task starts again by itself: after 1 s, then twice as long each time, up to 60 s and ten times in a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.base import ConfigError
from ottla.connect import error_policy

__all__ = ["RESTART_SETTINGS", "RestartPolicy", "TaskRestarts"]

RESTART_SETTINGS: Mapping[str, int] = {
    "task.restart.max": 10,
    "task.restart.backoff.ms": 1_000,
    "task.restart.backoff.max.ms": 60_000,
}
"""The settings and their defaults, for the worker, and for one connector in its own configuration.

`task.restart.max=0` leaves failed tasks failed, as Kafka does.
"""

QUIET_MS = 60_000


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How often failed tasks start again, and after how long (milliseconds)."""

    restarts_max: int = RESTART_SETTINGS["task.restart.max"]
    first_ms: int = RESTART_SETTINGS["task.restart.backoff.ms"]
    most_ms: int = RESTART_SETTINGS["task.restart.backoff.max.ms"]

    @classmethod
    def of(cls, *settings: Mapping[str, str | None]) -> RestartPolicy:
        """Return the policy of some settings, the later ones stronger; raises ConfigError."""
        values = []
        for name, default in RESTART_SETTINGS.items():
            given = next((each[name] for each in reversed(settings) if each.get(name) is not None), str(default))
            assert given is not None
            if not given.strip().isdecimal():
                raise ConfigError(name, given, "a whole number of at least 0")
            values.append(int(given))
        return cls(*values)


@dataclass(slots=True)
class TaskRestarts:
    """The restarts of one task."""

    policy: RestartPolicy
    in_a_row: int = 0
    total: int = 0

    def failed(self, ran_ms: float) -> int | None:
        """Note a failure after a run of that length; return after how many ms to start again, None for never.

        A task that had run for a minute, and for longer than the longest back-off, was well: its failures count anew.
        """
        if ran_ms > max(QUIET_MS, self.policy.most_ms):
            self.in_a_row = 0
        delay = error_policy.restart_delay_ms(
            self.in_a_row,
            first_ms=self.policy.first_ms,
            most_ms=self.policy.most_ms,
            restarts_max=self.policy.restarts_max,
        )
        if delay is not None:
            self.in_a_row += 1
            self.total += 1
        return delay

    def warning(self, ran_ms: float) -> str | None:
        """Return what to say of a run that has lasted so long: it may end as those before it; None where it is well."""
        if self.in_a_row < 2 or ran_ms > max(QUIET_MS, self.policy.most_ms):
            return None
        return f"it has failed {self.in_a_row} times in a row, and was started again {ran_ms / 1000:.0f} s ago"

    def words(self, delay_ms: int | None) -> str:
        """Return the line that goes before a failure's trace."""
        if self.policy.restarts_max == 0:
            return ""
        if delay_ms is None:
            return f"Not restarted again: {self.in_a_row} automatic restarts in a row have failed (task.restart.max).\n"
        return f"Automatic restart {self.in_a_row} of {self.policy.restarts_max} in {delay_ms / 1000:g} s.\n"
