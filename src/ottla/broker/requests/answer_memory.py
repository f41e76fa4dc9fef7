"""How much memory the answers take that clients have not read yet, and whose turn it is where that is too much.

Only what a connection could not hand to the system at once counts: a broker whose clients read holds nothing. Where the
bound is reached, answers are made of pieces of files (`FilePart`) and requests whose answers may be large wait, first come,
first served: an operator's before it is handled, a fetch before it is answered, and any answer that turns out to be large
before it is encoded for good. What is small goes on: produces, heartbeats, groups, transactions, and fetches of few
partitions. The last quarter is for brokers that replicate from here.

Whoever gets room may go beyond the bound with one answer, so that none is too large to be answered ever. A connection that
takes nothing of its answer for `STALLED_S_MAX` while others wait is closed, so that nobody waits for the dead.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

from ottla.wire import ApiKey

__all__ = [
    "ANSWER_MEMORY_BYTES_MAX_DEFAULT",
    "AROUND_BYTES_MAX",
    "COPIED_BYTES_MAX",
    "AnswerMemory",
    "Holder",
    "Turn",
    "may_be_large",
]

ANSWER_MEMORY_BYTES_MAX_DEFAULT: Final = 256 * 1024 * 1024
SHARE_BYTES_MAX: Final = 1024 * 1024
"""Records of one answer that are read into memory; the rest is read when its turn to be sent has come. A hundred partitions
of 8 KiB cost a tenth less as one write than with their second half in pieces (0.5 MiB here)."""
COPIED_BYTES_MAX: Final = 64 * 1024
"""Beyond this size a slice of a log goes by `sendfile`; who asks for 64 KiB at a time mostly gets just as much."""
AROUND_BYTES_MAX: Final = 4 * 1024
"""What one copied slice has around it."""
PART_BYTES: Final = 256
"""What a partition's place in an answer takes beside its records: its fields, and a piece of a file."""
SMALL_ANSWER_BYTES: Final = 16 * 1024
"""Answers that are not larger wait for nobody."""
CLIENTS_QUARTERS: Final = 3
"""Quarters of the bound that clients may fill."""
STALLED_S_MAX: Final = 30.0
"""Kafka's clients give a request up after this long by default."""

GROWING: Final = frozenset(
    int(each)
    for each in (
        *(ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.DESCRIBE_CONFIGS, ApiKey.LIST_CONFIG_RESOURCES),
        *(ApiKey.DESCRIBE_GROUPS, ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS),
        *(ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.DESCRIBE_PRODUCERS, ApiKey.DESCRIBE_LOG_DIRS),
        *(ApiKey.LIST_PARTITION_REASSIGNMENTS, ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.CREATE_TOPICS),
        *(ApiKey.ELECT_LEADERS, ApiKey.DESCRIBE_CLUSTER, ApiKey.DESCRIBE_QUORUM),
    )
)
"""APIs of operators whose answers may be far larger than their requests."""
PROPORTIONAL: Final = frozenset(
    int(each)
    for each in (
        *(ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.FIND_COORDINATOR),
        *(ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS, ApiKey.DELETE_GROUPS),
        *(ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_REPLICA_LOG_DIRS),
        *(ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.OFFSET_DELETE, ApiKey.ALTER_CLIENT_QUOTAS),
    )
)
"""APIs whose answers are as large as what is asked. The others wait by themselves (Fetch, Metadata, OffsetFetch), or, where
an answer turns out to be large, before it is encoded (JoinGroup, and whatever is answered later than it was asked)."""


def may_be_large(request: memoryview) -> bool:
    """Return whether a request's answer may be so large that it has to wait where there is no room."""
    api_key = int.from_bytes(request[:2], "big")
    return api_key in GROWING or (len(request) > SMALL_ANSWER_BYTES and api_key in PROPORTIONAL)


class Holder(Protocol):
    """A connection's sending side, which holds answers that its client has not taken."""

    def recount(self) -> None:
        """Say again how much is held."""
        ...

    def cut_off(self) -> None:
        """Close the connection and let its answers go."""
        ...


class Turn:
    """A place in the queue; `go` is called once when there is room, unless it was given up."""

    __slots__ = ("go", "is_follower")

    def __init__(self, go: Callable[[], None], *, is_follower: bool) -> None:
        self.go = go
        self.is_follower = is_follower


class AnswerMemory:
    """Counts what all connections of a node hold."""

    __slots__ = (
        *("_clients", "_clients_max", "_followers", "_holders", "_loop", "_max", "_timer", "_waking"),
        *("cut_off", "held", "is_full", "shared"),
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, bytes_max: int = ANSWER_MEMORY_BYTES_MAX_DEFAULT) -> None:
        self._loop = loop
        self._max = max(1, bytes_max)
        self._clients_max = max(1, bytes_max // 4 * CLIENTS_QUARTERS)
        self._clients: OrderedDict[Turn, None] = OrderedDict()
        self._followers: OrderedDict[Turn, None] = OrderedDict()
        self._holders: dict[Holder, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._waking = False
        self.held = 0
        """Bytes that are held now."""
        self.is_full = False
        """True where a client's large answer has to wait: there is no room, or others wait already."""
        self.cut_off = 0
        """Connections that were closed because they took nothing while others waited."""
        self.shared = memoryview(bytearray(COPIED_BYTES_MAX + AROUND_BYTES_MAX))
        """What leaves at once is put together here; it is anybody's again before anything else runs. Fresh memory costs more
        than the copy into it (measured)."""

    @property
    def waiting(self) -> int:
        """Requests that wait for their turn."""
        return len(self._followers) + len(self._clients)

    # -- whoever makes an answer

    def must_wait(self, size: int, *, is_follower: bool) -> bool:
        """Return whether an answer that takes so many bytes, or more, has to wait for its turn."""
        if not self.is_full or size <= SMALL_ANSWER_BYTES:
            return False
        return not is_follower or self.held >= self._max or bool(self._followers)

    def share(self) -> int:
        """Return how many bytes of records an answer may read into memory now."""
        return max(0, min(SHARE_BYTES_MAX, self._clients_max - self.held))

    def wait(self, go: Callable[[], None], *, is_follower: bool = False) -> Turn:
        """Take a place in the queue."""
        turn = Turn(go, is_follower=is_follower)
        (self._followers if is_follower else self._clients)[turn] = None
        self._look()
        if self._timer is None:
            self._timer = self._loop.call_later(STALLED_S_MAX, self._cut_off_the_dead)
        return turn

    def give_up(self, turn: Turn) -> None:
        """Leave the queue, if it is still in it: the client is gone."""
        (self._followers if turn.is_follower else self._clients).pop(turn, None)
        self._look()

    def reserve(self, size: int) -> None:
        """Count bytes that are being read for an answer; below 0 where they go on their way, or are not needed."""
        self.held += size
        self._look()

    # -- whoever holds answers

    def holds(self, holder: Holder, size: int, change: int) -> None:
        """Called when a connection holds `size` bytes, `change` more than before (below 0: less)."""
        self.held += change
        if not size:
            self._holders.pop(holder, None)
        else:
            if change < 0:
                self._holders.pop(holder, None)  # it has taken something: to the end of the line
            if holder not in self._holders:
                self._holders[holder] = self._loop.time()
        self._look()

    def close(self) -> None:
        """Stop; whoever still waits is not answered."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._clients.clear()
        self._followers.clear()

    # -- inside

    def _look(self) -> None:
        """See whether there is room, and for whom."""
        self.is_full = bool(self._clients or self._followers) or self.held >= self._clients_max
        may_go = (self._followers and self.held < self._max) or (self._clients and self.held < self._clients_max)
        if may_go and not self._waking:
            self._waking = True
            self._loop.call_soon(self._wake)

    def _wake(self) -> None:
        """Let one go on who was first, a follower before a client; the loop has its turn before the next one."""
        self._waking = False
        if self._followers and self.held < self._max:
            self._followers.popitem(last=False)[0].go()
        elif self._clients and self.held < self._clients_max:
            self._clients.popitem(last=False)[0].go()
        self._look()

    def _cut_off_the_dead(self) -> None:
        """Close those who have taken nothing for long, the longest first, until there is room."""
        self._timer = None
        stalled_since_s = self._loop.time() - STALLED_S_MAX
        for holder in list(self._holders):
            holder.recount()
            if self.held < self._clients_max:
                break
            if self._holders.get(holder, stalled_since_s + 1) <= stalled_since_s:
                self.cut_off += 1
                holder.cut_off()
        if self.waiting:
            self._timer = self._loop.call_later(STALLED_S_MAX / 4, self._cut_off_the_dead)
