"""One decision about a classic group, while it is being made: the next group, its records, answers and timers.

A draft begins as a copy of the group; what it becomes is a value again. If the append of its records fails, the draft is
dropped, and the group is what it was.
"""

from __future__ import annotations

from dataclasses import replace

from ottla.base import ErrorCode
from ottla.groups.classic.group import (
    NO_MEMBER_ID,
    ClassicGroup,
    Member,
    State,
    group_record,
    subscribed_topics,
)
from ottla.groups.decision import Decision, DecisionContext, Record, Reply, Timer, TimerChange
from ottla.wire import Message
from ottla.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.messages.sync_group import SyncGroupResponse

__all__ = ["HEARTBEAT", "JOIN", "SYNC", "Draft"]

HEARTBEAT = "classic-heartbeat"
JOIN = "classic-join"
SYNC = "classic-sync"
"""Kinds of timer: a member's session, the end of a join phase, and the end of the wait for SyncGroup."""


class Draft:
    """A classic group that changes, with the same fields as `ClassicGroup`."""

    def __init__(self, group: ClassicGroup, context: DecisionContext) -> None:
        self.group_id = group.group_id
        self.state = group.state
        self.generation = group.generation
        self.protocol_type = group.protocol_type
        self.protocol = group.protocol
        self.leader = group.leader
        self.members = dict(group.members)
        self.context = context
        self.awaiting_join = group.awaiting_join
        self.pending_joins = set(group.pending_joins)
        self.pending_syncs = set(group.pending_syncs)
        self.was_empty = group.was_empty
        self.member_added = group.member_added
        self.initial_delay_ms = group.initial_delay_ms
        self.initial_remaining_ms = group.initial_remaining_ms
        self._state_since_ms = group.state_since_ms
        self._subscribed = group.subscribed
        self._static_ids = dict(group.static_ids)
        self._protocol_counts = dict(group.protocol_counts)
        self._records: list[Record] = []
        self._replies: list[Reply] = []
        self._timers: list[TimerChange] = []

    def decision(self, response: Message | None = None) -> Decision:
        """Return the decision, with the request's own answer unless it is parked."""
        return Decision(tuple(self._records), response, tuple(self._replies), tuple(self._timers), self.group())

    def group(self) -> ClassicGroup:
        """Return the group as it is now."""
        return ClassicGroup(
            group_id=self.group_id,
            state=self.state,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader,
            state_since_ms=self._state_since_ms,
            members=self.members,
            subscribed=self._subscribed,
            static_ids=self._static_ids,
            protocol_counts=self._protocol_counts,
            awaiting_join=self.awaiting_join,
            pending_joins=frozenset(self.pending_joins),
            pending_syncs=frozenset(self.pending_syncs),
            was_empty=self.was_empty,
            member_added=self.member_added,
            initial_delay_ms=self.initial_delay_ms,
            initial_remaining_ms=self.initial_remaining_ms,
        )

    # -- what is asked of it

    def supports(self, protocol_type: str, names: list[str]) -> bool:
        """Return whether somebody with these protocols can join: one of them is supported by every member."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(names)
        size = len(self.members)
        return protocol_type == self.protocol_type and any(self._protocol_counts.get(each, 0) == size for each in names)

    def static_id(self, instance_id: str) -> str | None:
        """Return the member id that an instance goes by."""
        return self._static_ids.get(instance_id)

    def all_have_joined(self) -> bool:
        """Return whether the join phase waits for nobody."""
        return len(self.members) == self.awaiting_join and not self.pending_joins

    def rebalance_timeout_ms(self) -> int:
        """Return the longest that a member may take to join again."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    def select_protocol(self) -> str:
        """Return the protocol, of those that all support, which most members like best; the first voted for wins ties."""
        size = len(self.members)
        candidates = frozenset(name for name, count in self._protocol_counts.items() if count == size)
        votes: dict[str, int] = {}
        for each in self.members.values():
            choice = each.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    # -- members

    def add(self, member: Member, protocol_type: str) -> None:
        """Take in a member; the first gives the group its protocol type and is its leader."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member, 1)
        if member.instance_id is not None:
            self._static_ids[member.instance_id] = member.member_id
        if member.joining is not None:
            self.awaiting_join += 1
        self.pending_joins.discard(member.member_id)

    def update(self, member: Member) -> None:
        """Replace a member by its next value under the same id."""
        before = self.members[member.member_id]
        self.members[member.member_id] = member
        if before.protocols is not member.protocols:
            self._count_protocols(before, -1)
            self._count_protocols(member, 1)
        self.awaiting_join += (member.joining is not None) - (before.joining is not None)

    def remove(self, member_id: str) -> None:
        """Let a member go, with its session; what it has parked is answered with UNKNOWN_MEMBER_ID."""
        self.cancel_timer(HEARTBEAT, member_id)
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)
        if member_id not in self.members:
            return
        self.answer_join(member_id, JoinGroupResponse(error_code=int(ErrorCode.UNKNOWN_MEMBER_ID)))
        self.answer_sync(member_id, SyncGroupResponse(error_code=int(ErrorCode.UNKNOWN_MEMBER_ID)))
        member = self.members.pop(member_id)
        self._count_protocols(member, -1)
        if member.instance_id is not None:
            self._static_ids.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def replace_static(self, instance_id: str, new_member_id: str) -> Member:
        """Give a static member another id, and fence whoever still waits under the old one (KIP-345)."""
        old_id = self._static_ids[instance_id]
        fenced = int(ErrorCode.FENCED_INSTANCE_ID)
        self.answer_join(old_id, JoinGroupResponse(error_code=fenced, member_id=old_id, protocol_name=None))
        self.answer_sync(old_id, SyncGroupResponse(error_code=fenced))
        self.cancel_timer(HEARTBEAT, old_id)
        self.pending_syncs.discard(old_id)
        new = replace(self.members[old_id], member_id=new_member_id)
        members = (new if each.member_id == old_id else each for each in self.members.values())
        self.members = {each.member_id: each for each in members}
        self._static_ids[instance_id] = new_member_id
        if self.leader == old_id:
            self.leader = new_member_id
        return new

    def _count_protocols(self, member: Member, by: int) -> None:
        for name in {name for name, _ in member.protocols}:
            count = self._protocol_counts.get(name, 0) + by
            if count:
                self._protocol_counts[name] = count
            else:
                del self._protocol_counts[name]

    # -- answers

    def answer_join(self, member_id: str, response: JoinGroupResponse) -> None:
        """Answer a member's parked JoinGroup, if there is one."""
        member = self.members[member_id]
        if member.joining is not None:
            self._replies.append(Reply(member.joining, response))
            self.update(replace(member, joining=None))

    def answer_sync(self, member_id: str, response: SyncGroupResponse) -> bool:
        """Answer a member's parked SyncGroup; return whether there was one."""
        member = self.members[member_id]
        if member.syncing is None:
            return False
        self._replies.append(Reply(member.syncing, response))
        self.update(replace(member, syncing=None))
        return True

    def joined(self, member_id: str) -> JoinGroupResponse:
        """Return the answer to a JoinGroup that says how the current generation is; the leader is told of everyone."""
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            leader=self.leader or NO_MEMBER_ID,
            member_id=member_id,
            members=self.members_for_leader() if member_id == self.leader else (),
        )

    def members_for_leader(self) -> list[JoinGroupResponseMember]:
        """Return every member with what it says under the chosen protocol."""
        return [
            JoinGroupResponseMember(
                member_id=each.member_id, group_instance_id=each.instance_id, metadata=each.metadata(self.protocol)
            )
            for each in self.members.values()
        ]

    def synced(self, assignment: bytes) -> SyncGroupResponse:
        """Return the answer to a SyncGroup of this generation."""
        return SyncGroupResponse(protocol_type=self.protocol_type, protocol_name=self.protocol, assignment=assignment)

    def refuse_syncs(self, code: ErrorCode) -> None:
        """Drop every assignment, and answer who waits for one with an error."""
        for each in list(self.members.values()):
            if each.assignment:
                self.update(replace(each, assignment=b""))
            if self.answer_sync(each.member_id, SyncGroupResponse(error_code=int(code))):
                self.renew_session(each.member_id)

    # -- timers

    def renew_session(self, member_id: str) -> None:
        """Let a member's session begin anew."""
        self.set_timer(HEARTBEAT, self.members[member_id].session_timeout_ms, member_id)

    def set_timer(self, kind: str, delay_ms: int, member_id: str = "") -> None:
        """Set a timer."""
        at_ms = self.context.now_ms + delay_ms
        self._timers.append(TimerChange(Timer(self.group_id, kind, member_id), at_ms))

    def cancel_timer(self, kind: str, member_id: str = "") -> None:
        """Take a timer away, if it is set."""
        self._timers.append(TimerChange(Timer(self.group_id, kind, member_id), None))

    # -- states

    def transition(self, state: State) -> None:
        """Enter a state."""
        self.was_empty = self.state is State.EMPTY and state is State.PREPARING_REBALANCE
        self.state = state
        self._state_since_ms = self.context.wall_ms

    def record(self, assignments: dict[str, bytes]) -> None:
        """Append a record of the group as it is, with these assignments."""
        self._records.append(group_record(self.group(), assignments))

    def rebalance_if_possible(self) -> None:
        """Begin a rebalance, or see whether the one that is being prepared waits for nobody now."""
        if self.state is State.PREPARING_REBALANCE:
            self.complete_join_if_ready()
        else:
            self.prepare_rebalance()

    def prepare_rebalance(self) -> None:
        """Ask everyone to join again; an empty group first waits a while for more members."""
        if self.state is State.COMPLETING_REBALANCE:
            self.refuse_syncs(ErrorCode.REBALANCE_IN_PROGRESS)
        self.cancel_timer(SYNC)
        is_initial = self.state is State.EMPTY
        self.transition(State.PREPARING_REBALANCE)
        if is_initial:
            delay_ms = self.context.settings.group_initial_rebalance_delay_ms
            self.initial_delay_ms = delay_ms
            self.initial_remaining_ms = max(self.rebalance_timeout_ms() - delay_ms, 0)
            self.member_added = False
            self.set_timer(JOIN, delay_ms)
        elif self.all_have_joined():
            self.complete_join()
        else:
            self.set_timer(JOIN, self.rebalance_timeout_ms())

    def complete_join_if_ready(self) -> None:
        """End the join phase where it waits for nobody; the initial delay is sat out."""
        if self.state is State.PREPARING_REBALANCE and self.all_have_joined() and not self.was_empty:
            self.complete_join()

    def complete_join(self) -> None:
        """End the join phase: who has not joined again is out, unless static, and the next generation begins."""
        self.cancel_timer(JOIN)
        for each in list(self.members.values()):
            if each.joining is None and each.instance_id is None:
                self.remove(each.member_id)
        if self.members and not self._elect_leader():
            self.set_timer(JOIN, self.rebalance_timeout_ms())  # only static members are left, and none has come back
            return
        self.generation += 1
        self.pending_syncs.clear()
        if not self.members:
            self.protocol = None
            self._subscribed = subscribed_topics(self.protocol_type, None, {})
            self.transition(State.EMPTY)
            self.record({})
            return
        self.protocol = self.select_protocol()
        self._subscribed = subscribed_topics(self.protocol_type, self.protocol, self.members)
        self.transition(State.COMPLETING_REBALANCE)
        self._begin_generation()

    def _elect_leader(self) -> bool:
        """Keep the leader, or where it has not joined take the first who has; return False where nobody has."""
        current = self.members.get(self.leader or NO_MEMBER_ID)
        if current is None or current.joining is None:
            joined = next((each.member_id for each in self.members.values() if each.joining is not None), None)
            if joined is None:
                return False
            self.leader = joined
        return True

    def _begin_generation(self) -> None:
        for each in list(self.members.values()):
            self.answer_join(each.member_id, self.joined(each.member_id))
            if each.is_new:
                self.update(replace(self.members[each.member_id], is_new=False))
            self.renew_session(each.member_id)
            self.pending_syncs.add(each.member_id)
        self.set_timer(SYNC, self.rebalance_timeout_ms())
