"""A work's state at one of its commits, as bytes that a restart begins with, and when it may.

A checkpoint saves time and decides nothing: the changelog is the truth. It says up to which offset of each changelog it
holds what was written, and which offsets of the input were committed with that; whoever restores reads the rest of the
changelog. It is of no use, and the changelog is read whole, where

- it was made of another application, cluster, plan or format, or its bytes are not those that were written;
- a changelog was made anew, ends before the checkpoint's offset (the cluster has lost records), or begins behind it;
- the group's offsets are behind its own: it is ahead of what is committed, as after a reset, and exactly once state that
  nobody has committed would count;
- it is so old that a changelog may have forgotten what was deleted since (`delete.retention.ms`).
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.base import TopicPartition
from ottla.streams.placing import StreamsWork
from ottla.streams.plan.nodes import StoreSpec

__all__ = [
    "AGE_MS_MAX",
    "Bounds",
    "ChangelogPosition",
    "DamagedCheckpointError",
    "StateCheckpoint",
    "WorkIdentity",
    "read_checkpoint",
    "state_shape",
    "why_unusable",
    "written_checkpoint",
]

MAGIC = b"OTTLACP1"
AGE_MS_MAX = 12 * 3600 * 1000
"""Half of the default of `delete.retention.ms`, for as long as a compacted topic keeps its deletions at least."""
FUTURE_MS_MAX = 60_000
"""By how much a checkpoint may be younger than now, by another clock."""
BLOCKS = 1
"""The format of blobs: another number where a state of before cannot be read, or means something else."""
_DIGEST_BYTES = 16
_LENGTH = struct.Struct(">I")


class DamagedCheckpointError(Exception):
    """These bytes are no checkpoint that was written whole."""


@dataclass(frozen=True, slots=True)
class ChangelogPosition:
    """How far a changelog is in a checkpoint: `offset` is behind the last record that is."""

    topic_id: str
    offset: int


@dataclass(frozen=True, slots=True)
class WorkIdentity:
    """Whose state a checkpoint is."""

    cluster: str
    work: StreamsWork
    shape: str
    """What `state_shape` says of its stores."""


@dataclass(frozen=True, slots=True)
class StateCheckpoint:
    """A work's state; see the module's description."""

    identity: WorkIdentity
    written_ms: int
    positions: Mapping[TopicPartition, int]
    """What was committed of the input."""
    changelogs: Mapping[TopicPartition, ChangelogPosition]
    """Topics that the stores are restored from, those of global tables too."""
    blobs: Mapping[str, bytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What of a changelog is there now."""

    topic_id: str
    begin: int
    end: int


def state_shape(nodes: Iterable[str], stores: Iterable[StoreSpec]) -> str:
    """Return what blobs depend on besides the records: steps by name, and kinds of stores."""
    facts = [
        (each.name, each.kind, each.retention_ms, each.window_size_ms, each.retain_duplicates, each.logged)
        for each in sorted(stores, key=lambda each: each.name)
    ]
    return hashlib.blake2b(repr((BLOCKS, sorted(nodes), facts)).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def why_unusable(
    found: StateCheckpoint,
    identity: WorkIdentity,
    *,
    committed: Mapping[TopicPartition, int],
    changelogs: Mapping[TopicPartition, Bounds],
    now_ms: int,
    age_ms_max: int = AGE_MS_MAX,
) -> str | None:
    """Return why a restart must not begin with a checkpoint; None where it may."""
    if found.identity != identity:
        return _whose(found.identity, identity)
    if found.positions.keys() != committed.keys() or found.changelogs.keys() != changelogs.keys():
        return "it is of other topics"
    for place, bounds in changelogs.items():
        known = found.changelogs[place]
        if known.topic_id != bounds.topic_id:
            return f"{place.topic} was made anew"
        if known.offset > bounds.end:
            return f"{place} ends at offset {bounds.end}, before the checkpoint's {known.offset}"
        if known.offset < bounds.begin:
            return f"{place} begins at offset {bounds.begin}, behind the checkpoint's {known.offset}"
    for place, offset in committed.items():
        if found.positions[place] > offset:
            return f"it is ahead of what is committed: {found.positions[place]} of {place}, where {offset} is committed"
    age_ms = now_ms - found.written_ms
    if age_ms > age_ms_max:
        return f"it is {age_ms // 1000} s old, and a changelog may have forgotten deletions since"
    if age_ms < -FUTURE_MS_MAX:
        return f"it was written {-age_ms // 1000} s from now: clocks differ"
    return None


def _whose(found: WorkIdentity, wanted: WorkIdentity) -> str:
    if found.cluster != wanted.cluster:
        return f"it is of cluster {found.cluster}"
    if found.work != wanted.work:
        return f"it is of task {found.work}"
    return "the plan's steps or stores have changed"


def written_checkpoint(state: StateCheckpoint) -> list[bytes]:
    """Return a checkpoint's bytes, in pieces."""
    identity = state.identity
    header = json.dumps(
        {
            "cluster": identity.cluster,
            "work": list(identity.work),
            "shape": identity.shape,
            "written_ms": state.written_ms,
            "positions": [[*place, offset] for place, offset in state.positions.items()],
            "changelogs": [[*place, each.topic_id, each.offset] for place, each in state.changelogs.items()],
            "blobs": [[name, len(blob)] for name, blob in state.blobs.items()],
        }
    ).encode()
    pieces = [MAGIC, _LENGTH.pack(len(header)), header, *state.blobs.values()]
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for each in pieces:
        digest.update(each)
    return [*pieces, digest.digest()]


def read_checkpoint(data: bytes) -> StateCheckpoint:
    """Return what `written_checkpoint` has written; raises DamagedCheckpointError for anything else.

    Nothing of the state is decoded before the digest of all bytes was found right.
    """
    begin = len(MAGIC) + _LENGTH.size
    if len(data) < begin + _DIGEST_BYTES or not data.startswith(MAGIC):
        raise DamagedCheckpointError("these are not the bytes of a checkpoint of this format")
    whole = memoryview(data)
    body = whole[: len(data) - _DIGEST_BYTES]
    if hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest() != bytes(whole[len(body) :]):
        raise DamagedCheckpointError("its bytes are not those that were written")
    (size,) = _LENGTH.unpack_from(data, len(MAGIC))
    try:
        return _decoded(json.loads(bytes(body[begin : begin + size])), body[begin + size :])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedCheckpointError(f"its header cannot be read: {error}") from error


def _decoded(header: Mapping[str, Any], rest: memoryview) -> StateCheckpoint:
    blobs, at = {}, 0
    for name, size in header["blobs"]:
        blobs[str(name)] = bytes(rest[at : at + size])
        at += size
    if at != len(rest):
        raise ValueError(f"it has {len(rest)} bytes of state, and tells of {at}")
    application, sub_topology, partition = header["work"]
    return StateCheckpoint(
        WorkIdentity(header["cluster"], StreamsWork(application, sub_topology, partition), header["shape"]),
        int(header["written_ms"]),
        {TopicPartition(topic, part): int(offset) for topic, part, offset in header["positions"]},
        {
            TopicPartition(topic, part): ChangelogPosition(id_, int(offset))
            for topic, part, id_, offset in header["changelogs"]
        },
        blobs,
    )
