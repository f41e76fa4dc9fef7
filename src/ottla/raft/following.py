"""Following: fetching what the leader has, and giving up what it has not."""

from __future__ import annotations

from dataclasses import replace

from ottla.base import CorruptionError, LeaderEpoch, NodeId, Offset
from ottla.raft import elections
from ottla.raft.control import observed, read_batches
from ottla.raft.core import Core
from ottla.raft.messages import FetchReply, LogRange, SnapshotChunk, SnapshotRange
from ottla.raft.ready import SnapshotWrite
from ottla.raft.roles import Download, Follower

__all__ = ["on_fetch_reply", "on_snapshot_chunk", "tick"]


def tick(core: Core, role: Follower, now: int) -> None:
    """Campaign where the leader is silent, ask again where only a message was lost."""
    if now >= role.deadline and not (role.download and role.download.complete):
        if core.is_voter:
            elections.become_prospective(core, now)
        else:
            core.become_unattached(core.epoch, now)
            elections.discover(core, now)
    elif role.resend_at is not None and now >= role.resend_at:
        if core.all_flushed:
            core.fetch(now)
        else:  # a disk without room took only a part of what came: the flush of that asks for the rest
            core.role = replace(role, resend_at=None)


def answered(core: Core, source: NodeId, epoch: LeaderEpoch, now: int) -> Follower | None:
    """Return the role of a follower that this reply is for."""
    if epoch > core.epoch:
        core.observe(epoch, source, now)
        return None
    role = core.role
    if epoch != core.epoch:
        return None
    if not isinstance(role, Follower):
        core.observe(epoch, source, now)
        return None
    return role if role.leader_id == source else None


def on_fetch_reply(core: Core, source: NodeId, reply: FetchReply, now: int) -> None:
    """Take in records, truncate what the leader has otherwise, or begin to load a snapshot."""
    role = answered(core, source, reply.epoch, now)
    asked = (core.log.end_offset, core.log.last_epoch)
    if role is None or role.resend_at is None or role.download or (reply.offset, reply.last_epoch) != asked:
        return
    deadline = core.silence_deadline(source, now)
    core.role = replace(role, heard=True, deadline=deadline, resend_at=None)
    if reply.snapshot is not None:
        core.role = replace(core.role, download=Download(reply.snapshot))
    elif reply.diverging is not None:
        mine = core.log.end_of(reply.diverging.epoch)
        shared = mine.epoch == reply.diverging.epoch
        truncate(core, min(mine.end_offset, reply.diverging.end_offset) if shared else mine.end_offset)
    else:
        take_in(core, reply)
    if core.all_flushed:
        core.fetch(now)


def take_in(core: Core, reply: FetchReply) -> None:
    """Append what follows; only here the leader's high watermark holds, for only here the histories are one."""
    assert not isinstance(reply.records, LogRange), "the sending driver puts bytes in a range's place"
    for batch in read_batches(reply.records):
        follows = batch.header.base_offset == core.log.end_offset
        if not follows or not core.log.last_epoch <= batch.epoch <= core.epoch:
            break
        core.history = observed(core.history, batch)
        core.append(bytes(batch.data), batch.count, control=batch.header.is_control, epoch=batch.epoch)
    watermark = min(reply.high_watermark, core.log.end_offset)
    core.high_watermark = Offset(max(core.high_watermark, watermark))


def truncate(core: Core, offset: Offset) -> None:
    """Remove what another leader than this epoch's wrote."""
    if offset < core.high_watermark:
        raise CorruptionError(
            f"the quorum's leader ends where {core.high_watermark - offset} records that were committed are missing, at "
            f"{offset}: were the other voters restored from an older backup?"
        )
    offset = max(offset, core.log.start_offset)
    core.log = core.log.truncated(offset)
    core.history = core.history.truncated(offset)
    core.flushed_offset = min(core.flushed_offset, offset)
    assert not core.appends, "appends and a truncation never share one ready"
    core.truncate_to = offset


def on_snapshot_chunk(core: Core, source: NodeId, chunk: SnapshotChunk, now: int) -> None:
    """Take in the next piece of a snapshot."""
    role = answered(core, source, chunk.epoch, now)
    if role is None or role.download is None or role.download.complete:
        return
    download = role.download
    if (chunk.snapshot, chunk.position) != (download.snapshot, download.position):
        return
    assert not isinstance(chunk.data, SnapshotRange), "the sending driver puts bytes in a range's place"
    end = chunk.position + len(chunk.data)
    last = end >= chunk.size
    core.writes.append(SnapshotWrite(chunk.snapshot, chunk.position, chunk.data, last))
    download = replace(download, position=end, complete=last)
    core.role = replace(role, download=download, resend_at=None, deadline=core.silence_deadline(source, now))
    if not last:
        core.fetch(now)
