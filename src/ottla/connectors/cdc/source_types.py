"""What a column is in the database, as parameters of its schema: type, length, scale, name, where that is asked for. Pure.

Lengths and scales are those that PostgreSQL's JDBC driver says, which Debezium passes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.connect import JavaPattern, compile_java
from ottla.connectors.cdc.catalog import CatalogColumn, TableId
from ottla.connectors.cdc.column_kinds import ColumnType

__all__ = ["SourceTypes"]

PREFIX: Final = "__debezium.source.column."
_UNBOUNDED: Final = (1 << 31) - 1
_LENGTHS: Final[Mapping[int, int]] = {16: 1, 18: 1, 20: 19, 21: 5, 23: 10, 26: 10, 700: 8, 701: 17, 1082: 13, 1186: 49}
_NUMERIC: Final = 131_089
"""The length of a numeric that has none of its own."""
_SERIALS: Final[Mapping[int, str]] = {20: "bigserial", 21: "smallserial", 23: "serial"}
_FLOAT_SCALES: Final[Mapping[int, int]] = {700: 8, 701: 17}
_CLOCKS: Final[Mapping[int, int]] = {1083: 8, 1266: 14, 1114: 22, 1184: 28}
"""Characters of times without their fractions."""


@dataclass(frozen=True, slots=True)
class SourceTypes:
    """Which columns are told, by their names or by their types' names."""

    _columns: Sequence[JavaPattern]
    _types: Sequence[JavaPattern]

    @classmethod
    def of(cls, columns: Sequence[str], types: Sequence[str]) -> SourceTypes:
        """Take regular expressions of `schema.table.column` and of `schema.table.type`."""
        return cls(*([compile_java(f"(?i){each}") for each in given] for given in (columns, types)))

    def parameters(self, table: TableId, column: CatalogColumn) -> dict[str, str]:
        """Return what is said of a column; nothing where it was not asked for."""
        type_ = _type_name(column)
        columns, types = f"{table}.{column.name}", f"{table}.{type_}"
        if not any(each.fullmatch(columns) for each in self._columns) and not any(
            each.fullmatch(types) for each in self._types
        ):
            return {}
        length, scale = _size(column.type.element or column.type)
        found = {"type": type_.upper(), "length": str(length), "scale": str(scale), "name": column.name}
        return {PREFIX + each: value for each, value in found.items()}


def _type_name(column: CatalogColumn) -> str:
    """Return the type's name: a domain's own, and the serial types' where a sequence gives the default."""
    is_serial = (column.default or "").startswith("nextval(")
    return (_SERIALS.get(column.type.oid) if is_serial else None) or column.type.domain or column.type.name


def _size(type_: ColumnType) -> tuple[int, int]:
    """Return length and scale."""
    oid, modifier = type_.oid, type_.modifier
    if oid == 1700:
        packed = modifier - 4
        return (_NUMERIC, 0) if modifier < 0 else (packed >> 16 & 0xFFFF, packed & 0xFFFF)
    if oid in _CLOCKS:
        digits = 6 if modifier < 0 else modifier
        return _CLOCKS[oid] + (0 if not digits else 3 if digits == 1 else digits + 1), digits
    if oid in (1042, 1043):
        return (_UNBOUNDED if modifier < 0 else modifier - 4), 0
    if oid in (1560, 1562):
        return (_UNBOUNDED if modifier < 0 else modifier), 0
    if oid == 1186:
        return _LENGTHS[oid], 6 if modifier < 0 else modifier & 0xFFFF
    return _LENGTHS.get(oid, _UNBOUNDED), _FLOAT_SCALES.get(oid, 0)
