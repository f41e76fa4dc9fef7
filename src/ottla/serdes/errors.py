"""What goes wrong between a value and its bytes."""

from __future__ import annotations

from ottla.base import OttlaError

__all__ = ["SerdeError"]


class SerdeError(OttlaError):
    """Bytes, a value or a schema that do not fit, or a registry that refuses or is away."""

    def __init__(self, message: str, *, retriable: bool = False) -> None:
        super().__init__(message)
        self.retriable = retriable
        """Whether the same call may succeed later: the registry did not answer, or said that it could not now."""

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (str(self), self.retriable)


def _again(message: str, retriable: bool) -> SerdeError:
    """Return the error that was pickled."""
    return SerdeError(message, retriable=retriable)
