"""Which subject a record's schema is registered under: Confluent's strategies."""

from __future__ import annotations

from enum import StrEnum

from ottla.base import ConfigError
from ottla.serdes.errors import SerdeError

__all__ = ["SubjectStrategy", "strategy_of", "subject_of"]

_PACKAGE = "io.confluent.kafka.serializers.subject."


class SubjectStrategy(StrEnum):
    """The strategies, by Confluent's names."""

    TOPIC = "TopicNameStrategy"
    RECORD = "RecordNameStrategy"
    TOPIC_RECORD = "TopicRecordNameStrategy"


def strategy_of(key: str, name: str) -> SubjectStrategy:
    """Return the strategy of a class name, with its package or without; raises ConfigError."""
    short = name.strip().removeprefix(_PACKAGE)
    try:
        return SubjectStrategy(short)
    except ValueError:
        raise ConfigError(key, name, f"one of {', '.join(SubjectStrategy)}") from None


def subject_of(strategy: SubjectStrategy, topic: str, record: str | None, *, is_key: bool) -> str:
    """Return the subject; `record` is the full name of the schema, its message or its title. Raises SerdeError."""
    if strategy is SubjectStrategy.TOPIC:
        return f"{topic}-{'key' if is_key else 'value'}"
    if not record:
        raise SerdeError(f"{strategy} needs a schema with a name: a record, a message, or a schema with a title")
    return record if strategy is SubjectStrategy.RECORD else f"{topic}-{record}"
