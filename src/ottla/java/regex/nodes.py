"""A pattern as a tree of values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from ottla.java.regex.characters import Ranges

__all__ = [
    "Alternatives",
    "Atomic",
    "Characters",
    "Group",
    "Look",
    "Node",
    "Place",
    "Places",
    "Reference",
    "Repetition",
    "Sequence",
    "Way",
]


class Place(Enum):
    """What an assertion without width asks of a place."""

    BEGIN = auto()
    END = auto()
    LAST = auto()
    """The end, or before a line terminator at the end."""
    LAST_UNIX = auto()
    LINE_BEGIN = auto()
    LINE_BEGIN_UNIX = auto()
    LINE_END = auto()
    LINE_END_UNIX = auto()
    WORD = auto()
    """Between a word and what is none."""
    NO_WORD = auto()


class Way(Enum):
    """Of which length a repetition is tried first."""

    GREEDY = ""
    LAZY = "?"
    POSSESSIVE = "+"


@dataclass(frozen=True, slots=True)
class Characters:
    """One character of a set."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Places:
    """An assertion; `unicode`: words are Unicode's."""

    place: Place
    unicode: bool = False


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts one behind the other."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    """The first that leads to a match counts."""

    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A group whose text is kept."""

    inner: Node
    number: int


@dataclass(frozen=True, slots=True)
class Repetition:
    """A part so many times; without a most, any number."""

    inner: Node
    least: int
    most: int | None
    way: Way


@dataclass(frozen=True, slots=True)
class Look:
    """What has to stand before or behind a place, or must not."""

    inner: Node
    ahead: bool
    negative: bool


@dataclass(frozen=True, slots=True)
class Atomic:
    """A part whose first match stays."""

    inner: Node


@dataclass(frozen=True, slots=True)
class Reference:
    """The text of a group again."""

    number: int
    folds: bool


Node = Characters | Places | Sequence | Alternatives | Group | Repetition | Look | Atomic | Reference
