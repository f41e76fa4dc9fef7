"""Leading: appending, answering fetches, and committing what a majority has."""

from __future__ import annotations

from dataclasses import replace

from ottla.base import NodeId
from ottla.raft import progress
from ottla.raft.core import Core
from ottla.raft.messages import (
    BeginEpoch,
    EndEpoch,
    EpochRefused,
    Fetch,
    FetchReply,
    FetchSnapshot,
    LogRange,
    SnapshotChunk,
    SnapshotRange,
)
from ottla.raft.roles import Leader, Progress, Resigned

__all__ = ["announce_end", "append", "flushed", "on_fetch", "on_fetch_snapshot", "refused", "resign", "tick"]


def append(core: Core, batch: bytes, count: int, *, control: bool, now: int) -> None:
    """Append a batch of this epoch, which waiting fetches may carry at once: it need not be durable here first."""
    core.append(batch, count, control=control, epoch=core.epoch)
    answer_parked(core, now)


def flushed(core: Core, role: Leader, now: int) -> None:
    """Count this replica's own log as far as it is durable."""
    own = role.progress.get(core.key.id)
    if own is not None:
        own = replace(own, end_offset=core.flushed_offset, heard_at=now, caught_up_at=now)
        core.role = replace(role, progress=role.progress.set(core.key.id, own))
    advance_high_watermark(core, now)


def resign(core: Core, now: int) -> None:
    """Stop leading, so that others elect at once; elsewhere it does nothing."""
    role = core.role
    if isinstance(role, Leader):
        successors = progress.successors(role, core.voters, core.key.id)
        core.role = Resigned(
            deadline=core.election_deadline(now),
            resend_at=now + core.config.request_timeout_ms,
            successors=successors,
        )
        announce_end(core, successors)


def refused(core: Core, role: Leader, now: int) -> None:
    """Lead no epoch whose first record has no room; later, leave the lead to voters that may have room.

    A leader that is alone stays, and so does one that has just begun: where no disk has room, elections in a row at the
    pace of what clients ask would help nobody. For the same reason an epoch that has not begun ends without a word: the
    others campaign in their own time, and this replica after them.
    """
    later = 0 if core.voters.ids == (core.key.id,) else core.config.fetch_timeout_ms
    if core.log.end_offset <= role.epoch_start_offset:
        deadline = core.election_deadline(now) + later
        core.role = Resigned(deadline=deadline, resend_at=deadline)
    elif later and now - role.since >= core.config.check_quorum_ms:
        resign(core, now)
        assert isinstance(core.role, Resigned)
        core.role = replace(core.role, deadline=core.role.deadline + later)


def announce_end(core: Core, successors: tuple[NodeId, ...]) -> None:
    """Tell the other voters that this epoch has no leader any more."""
    for voter in core.voters.others(core.key.id):
        core.send(voter, EndEpoch(core.epoch, successors))


def tick(core: Core, role: Leader, now: int) -> None:
    """Step down where a majority is silent, tell silent voters of the epoch again, end waits."""
    if progress.lost_majority(role, core.voters, core.key.id, now=now, timeout_ms=core.config.check_quorum_ms):
        resign(core, now)
        return
    if now >= role.begin_at:
        for voter in progress.silent(role, core.voters, core.key.id, now - core.config.fetch_timeout_ms // 2):
            core.send(voter, BeginEpoch(core.epoch))
        kept = progress.without_forgotten(role, core.voters, now - core.config.observer_forgotten_ms)
        core.role = replace(role, begin_at=now + core.config.request_timeout_ms, progress=kept)
    answer_parked(core, now)


def on_fetch(core: Core, source: NodeId, fetch: Fetch, now: int) -> None:
    """Answer a fetch, and note by it what is durable there."""
    role = core.role
    if not isinstance(role, Leader) or fetch.epoch != core.epoch:
        core.reply(source, EpochRefused(core.epoch, core.leader_id))
        return
    if core.log.is_before(fetch.offset, fetch.last_epoch):
        reply(core, source, fetch, snapshot=True)
    elif not core.log.holds(fetch.offset, fetch.last_epoch):
        reply(core, source, fetch)
    else:
        note_progress(core, role, source, fetch, now)


def note_progress(core: Core, role: Leader, source: NodeId, fetch: Fetch, now: int) -> None:
    """Note how far a replica is, and let its fetch wait for news."""
    old = role.progress.get(source) or Progress(fetch.replica)
    caught_up_at = now if fetch.offset >= core.log.end_offset else old.caught_up_at
    if caught_up_at is old.caught_up_at and old.leader_end is not None and fetch.offset >= old.leader_end:
        caught_up_at = old.heard_at  # under constant load it is never at the end, and yet it keeps up
    noted = Progress(
        fetch.replica,
        fetch.offset,
        now,
        caught_up_at,
        core.log.end_offset,
        parked=fetch,
        parked_until=now + min(fetch.max_wait_ms, core.config.fetch_max_wait_ms),
        parked_request=core.answering,
    )
    core.role = replace(role, progress=role.progress.set(source, noted))
    advance_high_watermark(core, now)
    if isinstance(core.role, Leader):  # else what it committed was its own removal
        answer_parked(core, now)


def answer_parked(core: Core, now: int) -> None:
    """Answer the fetches for which there are records, a newer high watermark, or no time left."""
    role = core.role
    assert isinstance(role, Leader)
    for node_id in sorted(role.progress):
        each = role.progress[node_id]
        fetch = each.parked
        if fetch is None:
            continue
        news = fetch.offset < core.log.end_offset or fetch.high_watermark < core.high_watermark
        if news or now >= each.parked_until:
            role = replace(role, progress=role.progress.set(node_id, replace(each, parked=None)))
            reply(core, node_id, fetch, request=each.parked_request)
    core.role = role


def reply(core: Core, to: NodeId, fetch: Fetch, *, snapshot: bool = False, request: int | None = None) -> None:
    """Answer a fetch."""
    held = core.log.holds(fetch.offset, fetch.last_epoch)
    has_more = held and fetch.offset < core.log.end_offset
    core.reply(
        to,
        FetchReply(
            epoch=core.epoch,
            offset=fetch.offset,
            last_epoch=fetch.last_epoch,
            high_watermark=core.high_watermark,
            records=LogRange(fetch.offset, core.log.end_offset) if has_more and not snapshot else b"",
            diverging=None if held or snapshot else core.log.end_of(fetch.last_epoch),
            snapshot=core.log.snapshot if snapshot else None,
        ),
        request,
    )


def on_fetch_snapshot(core: Core, source: NodeId, message: FetchSnapshot, now: int) -> None:
    """Answer with a piece of a snapshot; whoever asks is alive."""
    role = core.role
    if not isinstance(role, Leader) or message.epoch != core.epoch:
        core.reply(source, EpochRefused(core.epoch, core.leader_id))
        return
    known = role.progress.get(source)
    if known is not None:
        core.role = replace(role, progress=role.progress.set(source, replace(known, heard_at=now)))
    data = SnapshotRange(message.snapshot, message.position)
    core.reply(source, SnapshotChunk(core.epoch, message.snapshot, message.position, data))


def advance_high_watermark(core: Core, now: int) -> None:
    """Commit what a majority has by now."""
    role = core.role
    assert isinstance(role, Leader)
    watermark = progress.majority_offset(role, core.voters)
    # Earlier epochs' records are committed by the first of this one, never by being counted (Raft, 5.4.2).
    if watermark > role.epoch_start_offset and watermark > core.high_watermark:
        core.high_watermark = watermark
        answer_parked(core, now)
        if not core.is_voter and core.history.last_offset < watermark:
            resign(core, now)  # it was removed, and that is committed (KIP-853)
