"""The metadata images of one node: what is committed, what is appended and waits for that, what was decided last.

Going back to an earlier one costs nothing, because images are persistent values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ottla.base import CorruptionError, KafkaError, LeaderEpoch, Offset, WireError
from ottla.broker.quorum.log import MetadataLog
from ottla.metadata import (
    EMPTY_IMAGE,
    METADATA_VERSION_LATEST,
    METADATA_VERSION_OLDEST,
    Image,
    Record,
    apply_all,
)
from ottla.raft import Append, VoterHistory, VoterSet

__all__ = ["Images"]


@dataclass(frozen=True, slots=True)
class _Pending:
    """The image that an appended batch leaves, until it is committed."""

    end_offset: Offset
    image: Image


@dataclass(slots=True)
class Images:
    """`committed` holds everything that a majority has, `published` the same up to the last whole metadata transaction.

    `latest` is what the next decision sees: also what is decided and not yet appended. None is older than the one before
    it: published, committed, latest.
    """

    decode: Callable[[bytes], Sequence[Record]]
    committed: Image = EMPTY_IMAGE
    published: Image = EMPTY_IMAGE
    latest: Image = EMPTY_IMAGE
    _pending: deque[_Pending] = field(default_factory=deque)
    _own: dict[Offset, Image] = field(default_factory=dict)

    def replay(self, log: MetadataLog, voters: VoterSet) -> VoterHistory:
        """Fold the newest snapshot and everything after it; return the voters, which are these where neither names any.

        Nothing of the log counts as committed yet. Raises CorruptionError where it is not what this version can read.
        """
        history = VoterHistory.starting(voters, kraft_version=0)
        snapshot = log.newest_snapshot()
        if snapshot is not None:
            self.revert(snapshot.image)
            history = snapshot.voters or history
        try:
            for append, after in log.replay(history, self.committed.offset + 1):
                history = after
                self.appended(append)
        except (WireError, KafkaError) as error:
            raise CorruptionError(f"{log.folder}: {error}") from error
        level = self.latest.metadata_version
        if level and not METADATA_VERSION_OLDEST <= level <= METADATA_VERSION_LATEST:
            raise CorruptionError(
                f"the cluster is at metadata.version {level}; this version of Ottla knows {METADATA_VERSION_OLDEST} to "
                f"{METADATA_VERSION_LATEST}"
            )
        return history

    def decided(self, records: Sequence[Record], base_offset: Offset, epoch: LeaderEpoch) -> Image:
        """Fold a decision's records before they are appended, and return what they leave."""
        assert self.latest.offset == base_offset - 1, "the newest image holds every record of the log"
        self._own[base_offset] = self.latest = image = apply_all(self.latest, records, base_offset, epoch)
        return image

    def appended(self, append: Append) -> None:
        """Fold an appended batch; what this node decided itself is folded already."""
        end_offset = Offset(append.base_offset + append.count)
        image = self._own.pop(append.base_offset, None)
        if image is None:
            image = self._after(self._pending[-1].image if self._pending else self.committed, append)
            if not self._own:
                self.latest = image
        self._pending.append(_Pending(end_offset, image))

    def _after(self, image: Image, append: Append) -> Image:
        if append.control:
            return replace(image, offset=Offset(append.base_offset + append.count - 1), epoch=append.epoch)
        return apply_all(image, self.decode(append.batches), append.base_offset, append.epoch)

    def truncated(self, offset: Offset) -> None:
        """Go back to what is left of the log."""
        while self._pending and self._pending[-1].end_offset > offset:
            self._pending.pop()
        self._own.clear()
        self.latest = self._pending[-1].image if self._pending else self.committed

    def commit(self, high_watermark: Offset) -> tuple[Image, Image] | None:
        """Go on to what is committed now; return what was published before and is now, where that is any."""
        while self._pending and self._pending[0].end_offset <= high_watermark:
            self.committed = self._pending.popleft().image
        if self.committed.in_transaction:
            return None
        old, self.published = self.published, self.committed
        return old, self.published

    def check(self) -> None:
        """Assert what holds after each commit."""
        offsets = self.published.offset, self.committed.offset, self.latest.offset
        assert offsets[0] <= offsets[1] <= offsets[2], f"published, committed, latest: {offsets}"

    def revert(self, committed: Image | None = None) -> None:
        """Go back to what is committed, or to a snapshot in place of that."""
        self._pending.clear()
        self._own.clear()
        if committed is not None:
            self.committed = committed
        self.latest = self.committed
