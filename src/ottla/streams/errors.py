"""What can be wrong with a plan or with bytes."""

from __future__ import annotations

from ottla.base import OttlaError

__all__ = ["SerializationError", "TopologyError"]


class TopologyError(OttlaError):
    """A plan that cannot run: the text names the step, what was expected and what was given."""

    def __init__(self, step: str, problem: str) -> None:
        super().__init__(f"{step}: {problem}" if step else problem)
        self.step = step
        self.problem = problem

    def __reduce__(self) -> tuple[type[TopologyError], tuple[object, ...]]:
        return type(self), (self.step, self.problem)


class SerializationError(OttlaError):
    """A value that a serde cannot write, or bytes that it cannot read."""
