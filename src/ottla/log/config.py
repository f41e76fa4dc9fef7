"""The settings of one log, as the topic's configuration gives them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["INT64_MAX", "LogConfig"]

INT64_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """One log's settings; names, units and defaults are those of Kafka's topic configuration."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = INT64_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10 << 20
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    producer_id_expiration_ms: int = 86_400_000
    """`producer.id.expiration.ms` of the broker."""

    @classmethod
    def of(cls, settings: object, *, producer_id_expiration_ms: int = 86_400_000) -> LogConfig:
        """Return the settings of a topic from any object with an attribute per topic key (`segment_bytes`, ...)."""
        names = [name for name in cls.__dataclass_fields__ if name != "producer_id_expiration_ms"]
        values = {name: getattr(settings, name) for name in names}
        internal = getattr(settings, "internal_segment_bytes", None)
        if internal is not None:
            values["segment_bytes"] = internal
        if (
            "compact" in values["cleanup_policy"]
        ):  # so that what has to be compacted by then is not in the active segment
            values["segment_ms"] = min(values["segment_ms"], values["max_compaction_lag_ms"])
        return cls(**values, producer_id_expiration_ms=producer_id_expiration_ms)

    @property
    def log_append_time(self) -> bool:
        """True where the broker's clock stamps the records."""
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def deletes(self) -> bool:
        """True where retention by time and size applies."""
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        """True where only the latest record of each key has to stay."""
        return "compact" in self.cleanup_policy
