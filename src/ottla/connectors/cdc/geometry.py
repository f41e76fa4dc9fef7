"""PostgreSQL's points, lines, boxes, paths, polygons and circles as Debezium's structs, most as well-known binary."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from struct import pack
from typing import Any, Final

from ottla.connect import DataError
from ottla.connect.data import BYTES, FLOAT64, OPTIONAL_BYTES, OPTIONAL_INT32, STRING, SchemaBuilder, Struct

__all__ = [
    "POINT",
    "circle",
    "circle_builder",
    "geometry",
    "geometry_builder",
    "line",
    "line_builder",
    "point",
    "point_builder",
]

_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|Infinity|NaN)")
Point = tuple[float, float]


def _named(name: str, doc: str, version: int = 1) -> SchemaBuilder:
    return SchemaBuilder.struct().name(f"io.debezium.data.geometry.{name}").version(version).doc(doc)


def point_builder() -> SchemaBuilder:
    """Begin the schema of a point."""
    builder = _named("Point", "Geometry (POINT)").field("x", FLOAT64).field("y", FLOAT64)
    return builder.field("wkb", OPTIONAL_BYTES).field("srid", OPTIONAL_INT32)


def line_builder() -> SchemaBuilder:
    """Begin the schema of a line, a x + b y + c = 0."""
    return _named("Line", "Geometry (LINE)").field("a", FLOAT64).field("b", FLOAT64).field("c", FLOAT64)


def circle_builder() -> SchemaBuilder:
    """Begin the schema of a circle."""
    return _named("Circle", "Geometry (CIRCLE)").field("center", point_builder().build()).field("radius", FLOAT64)


def geometry_builder() -> SchemaBuilder:
    """Begin the schema of all others."""
    builder = _named("Geometry", "Geometry", 2).field("wkb", BYTES).field("srid", OPTIONAL_INT32)
    return builder.field("extensions", SchemaBuilder.map(STRING, STRING).optional().build())


POINT: Final = point_builder().optional().build()
_CENTER: Final = point_builder().build()
_LINE: Final = line_builder().optional().build()
_CIRCLE: Final = circle_builder().optional().build()
_GEOMETRY: Final = geometry_builder().optional().build()


def _numbers(raw: bytes, least: int) -> list[float]:
    found = [float(each) for each in _NUMBER.findall(raw.decode())]
    if len(found) < least:
        raise DataError(f"PostgreSQL printed {raw[:40]!r}, which is no geometry")
    return found


def _point_fields(x: float, y: float) -> Mapping[str, Any]:
    return {"x": x, "y": y, "wkb": pack("<BIdd", 1, 1, x, y)}


def point(raw: bytes) -> Struct:
    """Return a point of its text."""
    x, y = _numbers(raw, 2)[:2]
    return Struct(POINT, _point_fields(x, y))


def line(raw: bytes) -> Struct:
    """Return a line of its text."""
    a, b, c = _numbers(raw, 3)[:3]
    return Struct(_LINE, {"a": a, "b": b, "c": c})


def circle(raw: bytes) -> Struct:
    """Return a circle of its text."""
    x, y, radius = _numbers(raw, 3)[:3]
    return Struct(_CIRCLE, {"center": Struct(_CENTER, _point_fields(x, y)), "radius": radius})


def geometry(kind: str, raw: bytes) -> Struct:
    """Return a box, lseg, path or polygon of its text."""
    numbers = _numbers(raw, 2)
    points = list(zip(numbers[::2], numbers[1::2], strict=True))
    more = {"type": kind}
    match kind:
        case "box":
            (right, top), (left, bottom) = points
            wkb = _ring([(right, top), (right, bottom), (left, bottom), (left, top)])
        case "polygon":
            wkb = _ring(points)
        case "path":
            more["closed"] = str(raw.startswith(b"(")).lower()
            wkb = _string(points)
        case _:
            wkb = _string(points)
    return Struct(_GEOMETRY, {"wkb": wkb, "extensions": more})


def _string(points: Sequence[Point]) -> bytes:
    return pack("<BII", 1, 2, len(points)) + b"".join(pack("<dd", *each) for each in points)


def _ring(points: Sequence[Point]) -> bytes:
    """A polygon of one ring, which ends where it begins."""
    closed = points if points[0] == points[-1] else [*points, points[0]]
    return pack("<BIII", 1, 3, 1, len(closed)) + b"".join(pack("<dd", *each) for each in closed)
