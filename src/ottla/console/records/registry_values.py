"""Keys and values by a schema registry: what they are is asked of it once, beside the loop, and shown as JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from ottla.console.records.reads import Read
from ottla.serdes import HEADERS, Deserializer, SerdeError, serde_settings
from ottla.wire import Record

__all__ = ["RegistryValues"]

FRAMES = (b"\x00", b"\x01")
"""How bytes begin that name a schema: by its id, or by its GUID."""


class RegistryValues:
    """Reads records by one registry; what names no schema, or does not fit it, stays as it is."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Take a serializer's properties, `schema.registry.url` among them; raises ConfigError."""
        self._keys = Deserializer(serde_settings(properties, is_key=True))
        self._values = Deserializer(serde_settings(properties, is_key=False))

    async def read(self, records: Iterable[Record]) -> Sequence[Record | Read]:
        """Return the records of a batch, read in a thread where any of them names a schema."""
        found = list(records)
        if not any(_is_framed(each, each.key, is_key=True) or _is_framed(each, each.value) for each in found):
            return found
        return await asyncio.to_thread(lambda: [self._one(each) for each in found])

    def _one(self, record: Record) -> Record | Read:
        key, key_by = self._part(self._keys, record, record.key, is_key=True)
        value, value_by = self._part(self._values, record, record.value)
        if key_by is None and value_by is None:
            return record
        sizes = (len(record.key or b""), len(record.value or b""))
        return Read(record.offset, record.timestamp, key, value, record.headers, key_by, value_by, *sizes)

    def _part(
        self, reader: Deserializer, record: Record, data: bytes | None, *, is_key: bool = False
    ) -> tuple[bytes | None, str | None]:
        if not _is_framed(record, data, is_key=is_key):
            return data, None
        try:
            found = reader.deserialize(data, list(record.headers))
        except SerdeError:
            return data, None
        if found is None:
            return data, None
        named = found.id.id if found.id.id is not None else found.id.guid
        return found.json().encode(), f"{found.schema.schema_type.lower()} by schema {named}"


def _is_framed(record: Record, data: bytes | None, *, is_key: bool = False) -> bool:
    if data is None:
        return False
    return data[:1] in FRAMES or any(name == HEADERS[is_key] for name, _ in record.headers)
