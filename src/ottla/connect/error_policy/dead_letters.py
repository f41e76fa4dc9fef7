"""What a dead letter says of its error: context headers, and the line in the log."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from ottla.connect.error_policy.tolerance import Processing
from ottla.connect.errors import java_name_of

__all__ = ["ErrorContext", "context_headers", "error_log_line"]

PREFIX = "__connect.errors."


@dataclass(frozen=True, slots=True)
class ErrorContext:
    """An error, where it happened, and to which record: the topic's where there is one (sinks)."""

    connector: str
    task: int
    stage: Processing
    executing_class: str
    error: BaseException
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None


def context_headers(context: ErrorContext) -> list[tuple[str, bytes | None]]:
    """Return the headers that `errors.deadletterqueue.context.headers.enable` adds, in Kafka's order."""
    origin = () if context.topic is None else ("topic", "partition", "offset")
    pairs: list[tuple[str, object]] = [(name, getattr(context, name)) for name in origin]
    pairs += [
        ("connector.name", context.connector),
        ("task.id", context.task),
        ("stage", context.stage.value),
        ("class.name", context.executing_class),
        ("exception.class.name", java_name_of(context.error)),
        ("exception.message", str(context.error) or None),
        ("exception.stacktrace", "".join(traceback.format_exception(context.error))),
    ]
    return [(PREFIX + name, None if value is None else str(value).encode("utf-8", "replace")) for name, value in pairs]


def error_log_line(context: ErrorContext, *, record: str | None = None) -> str:
    """Return the line of `errors.log.enable`; `record` describes it where `errors.log.include.messages` asks."""
    line = (
        f"Error encountered in task {context.connector}-{context.task}. Executing stage '{context.stage.value}' with class "
        f"'{context.executing_class}'"
    )
    return f"{line}, where record is {record}." if record is not None else line + "."
