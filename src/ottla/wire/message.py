"""What every generated message class is made of: its base, and the facts of a field."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

__all__ = ["ELEMENTS_MAX", "REQUEST_ELEMENTS_MAX", "Field", "Message"]

REQUEST_ELEMENTS_MAX = 1 << 18
"""Elements in all arrays of one request. Three bytes can make an element of a hundred, in a microsecond of the event loop:
a request of the largest size would take the loop for a minute. No client asks about so many partitions at once."""
ELEMENTS_MAX = 1 << 22
"""Elements in all arrays of one response or record: Metadata of a million partitions fits."""

Versions = tuple[int, int]


class Field(NamedTuple):
    """A field's facts: `kind` is a primitive's name, `struct`, or `[]` before either; ranges are (first, last) version."""

    name: str
    kind: str
    versions: Versions | None
    nullable: Versions | None = None
    tagged: Versions | None = None
    tag: int | None = None
    ignorable: bool = False
    flexible: bool = True
    struct: type[Message] | None = None
    json: str | None = None

    @property
    def json_name(self) -> str:
        """The field's name in Kafka's JSON form."""
        first, *rest = self.name.split("_")
        return self.json or first + "".join(map(str.capitalize, rest))


class Message:
    """A message of the protocol, or a part of one: a value with slots, never changed after it was made.

    The generated classes spell out their constructors, so that importing forty of them costs milliseconds; equality,
    representation and `replace` are here, from `FIELDS`.
    """

    __slots__ = ()

    FIELDS: ClassVar[tuple[Field, ...]] = ()
    API_KEY: ClassVar[int | None] = None
    VERSIONS: ClassVar[Versions] = (0, -1)
    FLEXIBLE: ClassVar[Versions | None] = None

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed; raises TypeError for a name that is no field."""
        values = {field.name: getattr(self, field.name) for field in self.FIELDS}
        return type(self)(**(values | changes))

    __replace__ = replace  # copy.replace of Python 3.13

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_equal(getattr(self, field.name), getattr(other, field.name)) for field in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in self.FIELDS)
        return f"{type(self).__name__}({shown})"


def _equal(one: Any, other: Any) -> bool:
    """Compare two values of a field; a list equals a tuple of the same elements."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)
