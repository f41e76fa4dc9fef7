"""What an operator may store as offsets of the three connectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.connect import ConnectError

__all__ = ["same_offsets"]

Pairs = Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]


def same_offsets(pairs: Pairs, fields: Mapping[str, type], *, only_zero: bool = False) -> bool:
    """Return true; raises ConnectError for a partition without these fields, or an offset that is none."""
    for partition, offset in pairs:
        for name, kind in fields.items():
            if not isinstance(partition.get(name), kind) or isinstance(partition.get(name), bool):
                raise ConnectError(
                    f"A partition of this connector has {name}, {kind.__name__}; {dict(partition)} has not"
                )
        if kind_of := [name for name in partition if name not in fields]:
            raise ConnectError(f"A partition of this connector has no {', '.join(kind_of)}")
        if offset is None:
            continue
        found = offset.get("offset")
        if not isinstance(found, int) or isinstance(found, bool) or found < 0 or (only_zero and found != 0):
            words = '{"offset": 0}' if only_zero else '{"offset": a number from 0 on}'
            raise ConnectError(f"An offset of this connector is {words}, and {dict(offset)} is not")
    return True
