"""The errors of Connect, each with the Java class name that dead letter headers and traces carry."""

from __future__ import annotations

from typing import ClassVar

from ottla.base import ConfigError, OttlaError

__all__ = [
    "AlreadyExistsError",
    "BadRequestError",
    "ConnectError",
    "DataError",
    "IllegalArgumentError",
    "NotFoundError",
    "RebalanceNeededError",
    "RetriableError",
    "SchemaBuilderError",
    "SerializationError",
    "config_error",
    "java_name_of",
]

_ERRORS = "org.apache.kafka.connect.errors."


class ConnectError(OttlaError):
    """What a connector, task, converter or transformation raises: the task fails, or the record is an error."""

    java_name: ClassVar[str] = _ERRORS + "ConnectException"


class RetriableError(ConnectError):
    """The same call may succeed later: the worker asks again."""

    java_name = _ERRORS + "RetriableException"


class DataError(ConnectError):
    """A value that does not fit its schema, or bytes that are no value."""

    java_name = _ERRORS + "DataException"


class IllegalArgumentError(DataError):
    """An argument that cannot be meant, where Kafka raises IllegalArgumentException."""

    java_name = "java.lang.IllegalArgumentException"


class SerializationError(ConnectError):
    """What a serializer underneath a converter says."""

    java_name = "org.apache.kafka.common.errors.SerializationException"


class SchemaBuilderError(DataError):
    """A schema that cannot be built."""

    java_name = _ERRORS + "SchemaBuilderException"


class NotFoundError(ConnectError):
    """There is no such connector, task, plugin or logger: HTTP 404."""

    java_name = _ERRORS + "NotFoundException"


class AlreadyExistsError(ConnectError):
    """A connector of that name exists: HTTP 409."""

    java_name = _ERRORS + "AlreadyExistsException"


class BadRequestError(ConnectError):
    """The client's mistake: HTTP 400."""

    java_name = "org.apache.kafka.connect.runtime.rest.errors.BadRequestException"


class RebalanceNeededError(ConnectError):
    """The worker group is about to move connectors; the client asks again: HTTP 409."""

    java_name = "org.apache.kafka.connect.runtime.distributed.RebalanceNeededException"


def java_name_of(error: BaseException) -> str:
    """Return the class name that Connect would give: Java's for our own errors, `module.Class` for others."""
    if isinstance(error, ConnectError):
        return error.java_name
    if isinstance(error, ConfigError):
        return "org.apache.kafka.common.config.ConfigException"
    return f"{type(error).__module__}.{type(error).__qualname__}"


def config_error(message: str) -> ConfigError:
    """Return a ConfigError with just this text, for what Kafka says without naming a key first."""
    return ConfigError("", None, "", message)
