"""Starts that are alike are run once: what a start found, and what it came to, is kept under what it can depend on.

Most failures leave what another one has left. A start is a function of the cluster, of the offsets that the worker has
stored and of the connector's own files: where all three are as they were for an earlier case, it comes to the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ottla.connect.testing.cluster import ModelCluster
from ottla.connect.testing.world import World

__all__ = ["Outcome", "Seen", "state_of"]


@dataclass(frozen=True, slots=True)
class Seen:
    """What can be seen of a case: the rows at the destination, the dead letters, and what is not committed."""

    arrived: Sequence[str] = ()
    dead_letters: Sequence[str] = ()
    uncommitted: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a start came to: whether it went through everything, the state behind it, and what is seen there."""

    is_through: bool
    state: str
    seen: Seen


def state_of(world: World, cluster: ModelCluster, folder: Path) -> str:
    """Return all that a start can depend on, in few letters; the folder's own name is none of it."""
    digest = hashlib.sha256()
    parts = [repr(sorted(world.stored.items())), cluster.state()]
    digest.update("\n".join(parts).replace(str(folder), "").encode())
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(f"\n{path.relative_to(folder)} {path.stat().st_size}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
