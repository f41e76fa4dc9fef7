"""One partition that this broker follows in one leader epoch: where its fetcher stands with it."""

from __future__ import annotations

from ottla.base import LeaderEpoch
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.replica import FollowedKey

__all__ = ["BACKOFF_S_MIN", "NOT_ASKED", "FollowedPartition"]

NOT_ASKED = -1
"""For `asked_offset`: no answer is expected, and one that comes is out of date."""
BACKOFF_S_MIN = 0.02
"""The first wait after an error, which doubles up to `replica.fetch.backoff.ms`: a leader often hears a moment later."""


class FollowedPartition:
    """A hosted partition with the epoch that it follows in; a new epoch is a new one of these."""

    __slots__ = (
        "asked_offset",
        "asked_start",
        "backoff_s",
        "failed",
        "key",
        "lag",
        "leader_epoch",
        "out_of_range",
        "partition",
    )

    def __init__(self, partition: LocalPartition, leader_epoch: LeaderEpoch) -> None:
        self.partition = partition
        self.key: FollowedKey = (partition.topic_id, partition.key.partition)
        self.leader_epoch = leader_epoch
        self.asked_offset = NOT_ASKED
        self.asked_start = NOT_ASKED
        self.backoff_s = BACKOFF_S_MIN
        self.lag = 0
        """Records up to the leader's high watermark that are not here yet, as of the last answer."""
        self.out_of_range = False
        """True where the leader's log has nothing at our end: it has to be asked where it begins and ends."""
        self.failed = False
        """True where nothing is fetched until the metadata says something new."""
