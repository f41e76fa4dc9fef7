"""Where to begin or end in partitions, as people say it: `earliest`, `47`, `-10`, `+10`, `-1h`, `@2026-01-01T00:00`."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING

from ottla.base import Millis, Offset, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.client import BlockingClient, Isolation

__all__ = ["POSITIONS", "Position", "now_ms", "parse_moment", "parse_position", "resolve"]

POSITIONS = "earliest, latest, an offset, -N (the last N), +N (after the first N), -1h, or @2026-01-01T00:00"
"""What `parse_position` takes, for help texts."""
EARLIEST_WORDS = ("earliest", "start", "beginning")
LATEST_WORDS = ("latest", "end")
UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
SPAN = re.compile(r"(\d+)(ms|[smhdw])")
SECONDS_DIGITS_MAX = 10
"""A number of so many digits counts seconds since 1970, a longer one milliseconds."""


class Kind(Enum):
    """What a position's number counts."""

    OFFSET = 0
    FROM_START = 1
    FROM_END = 2
    TIME = 3


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a partition: `Kind.FROM_START` with 0 is the earliest record, `FROM_END` with 0 the end."""

    kind: Kind
    value: int

    @property
    def is_plain(self) -> bool:
        """True for what Kafka's tools know too: an offset, or an end of the log."""
        return self.kind is Kind.OFFSET or (self.kind is not Kind.TIME and self.value == 0)


def now_ms() -> Millis:
    """Return this machine's time in milliseconds since 1970."""
    return Millis(time.time_ns() // 1_000_000)


def parse_position(text: str, now: Millis) -> Position | None:
    """Return what the text means, or None where it means nothing."""
    if text in EARLIEST_WORDS:
        return Position(Kind.FROM_START, 0)
    if text in LATEST_WORDS:
        return Position(Kind.FROM_END, 0)
    if match := re.fullmatch(r"([+-]?)(\d{1,18})", text, re.ASCII):
        kind = {"": Kind.OFFSET, "+": Kind.FROM_START, "-": Kind.FROM_END}[match[1]]
        return Position(kind, int(match[2]))
    moment = parse_moment(text, now)
    return None if moment is None else Position(Kind.TIME, moment)


def parse_moment(text: str, now: Millis) -> Millis | None:
    """Return the time that `-1h`, `-2d12h`, `@1700000000000` or `@2026-01-01T00:00` means, or None.

    A date without a zone is UTC, so that a command means the same on every machine.
    """
    if text.startswith("-"):
        span = _span_ms(text[1:])
        return None if span is None else Millis(max(0, now - span))
    if not text.startswith("@"):
        return None
    said = text[1:]
    if said.startswith("-"):
        return parse_moment(said, now)
    if re.fullmatch(r"\d{1,18}", said, re.ASCII):
        return Millis(int(said) * (1000 if len(said) <= SECONDS_DIGITS_MAX else 1))
    try:
        found = datetime.fromisoformat(said)
    except ValueError:
        return None
    zoned = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return Millis(max(0, round(zoned.timestamp() * 1000)))


def _span_ms(text: str) -> int | None:
    """Return the length of `1h30m` in milliseconds, or None."""
    if not re.fullmatch(f"(?:{SPAN.pattern})+", text, re.ASCII):
        return None
    return sum(int(number) * UNIT_MS[unit] for number, unit in SPAN.findall(text))


def resolve(
    client: BlockingClient, partitions: Sequence[TopicPartition], position: Position, isolation: Isolation
) -> dict[TopicPartition, Offset]:
    """Return the offset that the position means in each partition, within its bounds for counts and times."""
    if not partitions:
        return {}
    if position.kind is Kind.OFFSET:
        return dict.fromkeys(partitions, Offset(position.value))
    from ottla.client import EARLIEST, LATEST

    def listed(moment: Millis) -> dict[TopicPartition, Offset]:
        answer = client.list_offsets(dict.fromkeys(partitions, moment), isolation=isolation)
        return {partition: each.check().offset for partition, each in answer.items()}

    if position.value == 0 and position.kind is not Kind.TIME:
        return listed(EARLIEST if position.kind is Kind.FROM_START else LATEST)
    ends = listed(LATEST)
    if position.kind is Kind.TIME:  # where no record is that late, the end
        return {each: offset if offset >= 0 else ends[each] for each, offset in listed(Millis(position.value)).items()}
    starts = listed(EARLIEST)
    if position.kind is Kind.FROM_START:
        return {each: Offset(min(ends[each], start + position.value)) for each, start in starts.items()}
    return {each: Offset(max(starts[each], end - position.value)) for each, end in ends.items()}
