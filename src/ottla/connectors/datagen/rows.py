"""What is made up: each row is a function of a seed and its number alone, so any of them can be made again at any time.

Users, items and pages are the same few in all kinds, so that an order's or a click's `userid` finds its user.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.connect import Schema, SchemaBuilder, Struct, data

__all__ = ["KINDS", "Draw", "Kind", "World"]

_MASK = (1 << 64) - 1

_CITIES = (
    ("Turku", "FI", "20100"),
    ("Gent", "BE", "9000"),
    ("Brno", "CZ", "60200"),
    ("Graz", "AT", "8010"),
    ("Porto", "PT", "4000"),
    ("Lyon", "FR", "69001"),
    ("Malmö", "SE", "21120"),
    ("Łódź", "PL", "90001"),
)
_GENDERS = ("FEMALE", "MALE", "OTHER")
_ACTIONS = ("open", "search", "view", "add", "remove", "buy", "leave")
_AGENTS = ("Firefox", "Chrome", "Safari", "Edge")


class Draw:
    """Numbers that look random, from a seed and a row's number (SplitMix64)."""

    __slots__ = ("_state",)

    def __init__(self, seed: int, number: int) -> None:
        self._state = ((seed * 0xD1342543DE82EF95) ^ (number * 0x2545F4914F6CDD1D + 0x632BE59BD9B4E019)) & _MASK
        self.below(2)

    def below(self, limit: int) -> int:
        """Return a number from 0 to below the limit."""
        self._state = state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((state ^ (state >> 31)) * limit) >> 64

    def one_of(self, values: tuple[Any, ...]) -> Any:
        """Return one of some values."""
        return values[self.below(len(values))]


@dataclass(frozen=True, slots=True)
class World:
    """How many users, items and pages there are."""

    users: int = 100
    items: int = 1000
    pages: int = 100

    def user(self, number: int) -> str:
        """Return a user's id."""
        return f"User_{number + 1}"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of rows."""

    schema: Schema
    key: str
    """The field whose text is the record's key."""

    make: Callable[[World, Draw, int, int], tuple[Any, ...]]
    """World, draw, number and time (ms since 1970) of a row -> its fields."""

    def row(self, world: World, seed: int, number: int, time_ms: int) -> Struct:
        """Return one row."""
        made = Struct(self.schema)
        for field, value in zip(self.schema.fields, self.make(world, Draw(seed, number), number, time_ms), strict=True):
            made.put(field.name, value)
        return made


def _schema(name: str, **fields: Schema) -> Schema:
    made = SchemaBuilder.struct().name(f"ottla.datagen.{name}")
    for field, schema in fields.items():
        made = made.field(field, schema)
    return made.build()


_ADDRESS = _schema("Address", city=data.STRING, state=data.STRING, zipcode=data.STRING)


def _address(draw: Draw) -> Struct:
    made = Struct(_ADDRESS)
    for field, value in zip(_ADDRESS.fields, draw.one_of(_CITIES), strict=True):
        made.put(field.name, value)
    return made


def _order(world: World, draw: Draw, number: int, time_ms: int) -> tuple[Any, ...]:
    user, item = world.user(draw.below(world.users)), f"Item_{draw.below(world.items) + 1}"
    units, price = draw.below(9) + 1, (draw.below(9900) + 100) / 100
    return time_ms, number, user, item, units, price, _address(draw)


def _user(world: World, draw: Draw, number: int, time_ms: int) -> tuple[Any, ...]:
    return time_ms, world.user(number % world.users), f"Region_{draw.below(9) + 1}", draw.one_of(_GENDERS)


def _page_view(world: World, draw: Draw, number: int, time_ms: int) -> tuple[Any, ...]:
    return time_ms, world.user(draw.below(world.users)), f"Page_{draw.below(world.pages) + 1}"


def _click(world: World, draw: Draw, number: int, time_ms: int) -> tuple[Any, ...]:
    user = draw.below(world.users)
    ip = f"10.{user >> 8 & 255}.{user & 255}.{draw.below(254) + 1}"
    page, action = f"Page_{draw.below(world.pages) + 1}", draw.one_of(_ACTIONS)
    return time_ms, world.user(user), ip, page, action, draw.below(5000), draw.one_of(_AGENTS)


_TEXT, _LONG, _INT = data.STRING, data.INT64, data.INT32

KINDS: dict[str, Kind] = {
    "orders": Kind(
        _schema(
            "Order",
            ordertime=_LONG,
            orderid=_LONG,
            userid=_TEXT,
            itemid=_TEXT,
            orderunits=_INT,
            price=data.FLOAT64,
            address=_ADDRESS,
        ),
        "orderid",
        _order,
    ),
    "users": Kind(_schema("User", registertime=_LONG, userid=_TEXT, regionid=_TEXT, gender=_TEXT), "userid", _user),
    "pageviews": Kind(_schema("PageView", viewtime=_LONG, userid=_TEXT, pageid=_TEXT), "userid", _page_view),
    "clicks": Kind(
        _schema("Click", time=_LONG, userid=_TEXT, ip=_TEXT, pageid=_TEXT, action=_TEXT, duration_ms=_INT, agent=_TEXT),
        "userid",
        _click,
    ),
}
"""Name -> what it makes."""
