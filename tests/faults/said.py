"""What the user of one log was told, and whether the log keeps it: after a failure, a reopen, a kill, a power loss."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.log import Log
from tests.faults.soundness import batches_of

__all__ = ["ABORTED", "Broken", "Said", "State", "records_of"]


ABORTED = b"aborted"
"""The key of records whose transaction is aborted, which compaction removes."""


class Broken(AssertionError):
    """A promise that was not kept."""


@dataclass(frozen=True)
class State:
    """A log as its user may find it: records by offset (None for a marker), and where it ends."""

    values: dict[int, bytes | None]
    end: int
    compacted: bool = False
    """True where records may lack whose key comes again."""


@dataclass
class Said:
    """One log's promises."""

    state: State = field(default_factory=lambda: State({}, 0))
    """What was acknowledged."""
    start: int = 0
    stored_start: int = 0
    durable_end: int = 0
    is_compact: bool = False
    """True where compaction may leave holes."""
    given: dict[int, set[bytes | None]] = field(default_factory=dict)
    """Every value that an offset ever had, also of what was cut or refused: after a power loss the older may be back."""
    doing: list[State] = field(default_factory=list)
    """What the log may have become by the call that is running."""
    coming_back: list[State] = field(default_factory=list)
    """What a kill may bring back after a truncation that the files do not follow yet; they do before the next append."""
    starts: set[int] = field(default_factory=set)
    """Where it may begin by the call that is running."""

    def becoming(self, *states: State, starts: set[int] | None = None) -> None:
        """Note what a call that begins now may make of the log."""
        self.doing = list(states)
        self.starts = starts or set()
        for state in states:
            for offset, value in state.values.items():
                self.given.setdefault(offset, set()).add(value)

    def became(self, state: State) -> None:
        """Note that the call has returned."""
        if state.end > self.state.end:
            self.coming_back = []
        self.state, self.doing, self.starts = state, [], set()
        self.durable_end = min(self.durable_end, state.end)

    def refused(self) -> None:
        """Note that the call was refused, and so has not happened."""
        self.doing, self.starts = [], set()

    # -- looking

    def check_same_process(self, log: Log, *, may_have_happened: bool) -> None:
        """The log is as it was; where that is allowed, the call that failed may have happened whole."""
        states = [self.state, *(self.doing if may_have_happened else [])]
        self._check_one_of(log, states, lowest_start=self.start)

    def check_after_kill(self, log: Log) -> None:
        """All that was acknowledged is there; the call that was running has happened or not; the start may go back."""
        states = [self.state, *self.doing, *self.coming_back]
        self._check_one_of(log, states, lowest_start=min(self.stored_start, self.start))

    def check_after_power_loss(self, log: Log) -> None:
        """Everything below the recovery point is there; above it any of what was written may be."""
        most = max(each.end for each in (self.state, *self.doing))
        ends = max(self.given, default=most) + 1
        self._check_start(log, min(self.stored_start, self.start))
        if not self.durable_end <= log.log_end_offset <= max(most, ends):
            raise Broken(f"ends at {log.log_end_offset}, was durable to {self.durable_end} and never beyond {most}")
        found = records_of(log)
        self._check_dense(log, found)
        for offset, value in found.items():
            promised = offset < self.durable_end and offset in self.state.values and not self.doing
            allowed = {self.state.values[offset]} if promised else self.given.get(offset, set())
            if value not in allowed:
                raise Broken(f"offset {offset} holds {value!r}, not {allowed}")

    def _check_start(self, log: Log, lowest: int) -> None:
        starts = {self.start, *self.starts}
        if not lowest <= log.log_start_offset <= max(starts):
            raise Broken(f"begins at {log.log_start_offset}, not between {lowest} and {max(starts)}")

    def _check_one_of(self, log: Log, states: list[State], *, lowest_start: int) -> None:
        self._check_start(log, lowest_start)
        found = records_of(log)
        problems = []
        for state in states:
            problem = self._differs(log, found, state)
            if not problem:
                return
            problems.append(problem)
        raise Broken("; or ".join(problems))

    def _differs(self, log: Log, found: dict[int, bytes | None], state: State) -> str:
        """Say in what a log is not what it should be; nothing where it is."""
        start = log.log_start_offset
        if log.log_end_offset != state.end:
            return f"ends at {log.log_end_offset}, not at {state.end}"
        wanted = {offset: value for offset, value in state.values.items() if offset >= max(start, self.start)}
        for offset in sorted(set(wanted) | set(found)):
            if offset not in found:
                if state.compacted and not _is_last_of_key(state, offset):
                    continue
                return f"offset {offset} is not there; {wanted[offset]!r} was acknowledged"
            value = found[offset]
            expected = {wanted[offset]} if offset in wanted else self.given.get(offset, set())
            if offset >= self.start and offset not in wanted:
                return f"offset {offset} holds {value!r}, which was never acknowledged"
            if value not in expected:
                return f"offset {offset} holds {value!r}, not {expected}"
        return ""

    def _check_dense(self, log: Log, found: dict[int, bytes | None]) -> None:
        lacking = [each for each in range(log.log_start_offset, log.log_end_offset) if each not in found]
        if lacking and not self.is_compact:
            raise Broken(f"offsets {lacking} are not there")


def _is_last_of_key(state: State, offset: int) -> bool:
    value = state.values[offset]
    if value is None or value.startswith(ABORTED):
        return False
    key = value.partition(b"=")[0]
    return not any(
        other > offset and each is not None and each.partition(b"=")[0] == key for other, each in state.values.items()
    )


def records_of(log: Log) -> dict[int, bytes | None]:
    """Return what a reader finds from the log's start to its end, by offset; None is a control record's value."""
    found: dict[int, bytes | None] = {}
    offset = int(log.log_start_offset)
    while offset < log.log_end_offset:
        data = log.read(offset, max_bytes=1 << 20, min_one_batch=True).read()
        if not data:
            break
        for header, records in batches_of(data):
            for record in records:
                if record.offset >= offset:
                    if record.offset in found:
                        raise Broken(f"offset {record.offset} is there twice")
                    found[int(record.offset)] = None if header.is_control else record.value
            offset = max(offset, int(header.next_offset))
    return found
