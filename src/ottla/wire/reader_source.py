"""The Python source of a reader: one function per struct, `read_0` for the message itself."""

from __future__ import annotations

import struct as structs
from typing import Any

from ottla.wire.codec_source import CodecSource, in_range
from ottla.wire.message import ELEMENTS_MAX, REQUEST_ELEMENTS_MAX, Field, Message

__all__ = ["FIXED", "STRING_BYTES_MAX", "reader_source"]

FIXED = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""Kinds of a fixed size: their format in `struct`."""
FEW = {kind: [structs.Struct(f">{n}{code}").unpack_from for n in range(9)] for kind, code in FIXED.items()}
"""Readers of up to eight numbers; replicas of a partition are rarely more, and making a format costs as much as reading."""
STRING_BYTES_MAX = 32767
"""Kafka refuses longer strings in every version, though lengths of flexible versions could say more."""
SMALL_ARRAY = 16
"""Numbers in an array that are not worth counting: they are bounded by the number of arrays."""


def reader_source(cls: type[Message], version: int) -> tuple[str, dict[str, Any]]:
    """Return the source of one version's functions, and the constants that it names."""
    return _Source(cls, version).finished()


class _Source(CodecSource):
    """Writes the functions of a reader."""

    def __init__(self, cls: type[Message], version: int) -> None:
        super().__init__(cls, version)
        self._elements_max = REQUEST_ELEMENTS_MAX if cls.__name__.endswith("Request") else ELEMENTS_MAX
        self._constants |= {"left": [0], "new": object.__new__}

    def _struct(self, struct: type[Message]) -> None:
        number = self._numbers[struct]
        made = self._constant(f"C{number}", struct)
        defaults = struct()
        self._add(0, f"def read_{number}(b, p, end):")
        self._add(1, f"m = new({made})")
        if number == 0:
            self._add(1, f"left[0] = {self._elements_max}")
        run: list[Field] = []
        tagged: list[Field] = []
        for field in struct.FIELDS:
            if self._flexible and in_range(self._version, field.tagged):
                tagged.append(field)
            if tagged[-1:] == [field] or not in_range(self._version, field.versions):
                self._default(number, defaults, field)
            elif field.kind in FIXED:
                run.append(field)
            else:
                self._fixed(run)
                self._value(1, field, f"m.{field.name}", compact=self._flexible and field.flexible)
        self._fixed(run)
        if self._flexible:
            self._tagged(tagged)
        self._add(1, "return m, p")

    def _default(self, number: int, defaults: Message, field: Field) -> None:
        value = getattr(defaults, field.name)
        simple = value is None or isinstance(value, bool | int | str | bytes)
        text = repr(value) if simple else self._constant(f"D{number}_{field.name}", value)
        self._add(1, f"m.{field.name} = {text}")

    def _fixed(self, run: list[Field]) -> None:
        """Read a run of fixed-size fields at once."""
        if not run:
            return
        packed = structs.Struct(">" + "".join(FIXED[field.kind] for field in run))
        unpack = self._constant(f"U_{packed.format[1:].replace('?', 'Z')}", packed.unpack_from)
        targets = ", ".join(f"m.{field.name}" for field in run) + ","
        self._add(1, f"{targets} = {unpack}(b, p)", f"p += {packed.size}")
        run.clear()

    def _tagged(self, fields: list[Field]) -> None:
        """Read the tagged section: a field that is known by its tag, any other over its size."""
        if not fields:
            self._add(1, "if b[p]:", "    p = skip_tagged(b, p, end)", "else:", "    p += 1")
            return
        self._add(1, "if not b[p]:", "    return m, p + 1", "count, p = read_uvarint(b, p)", "for _ in range(count):")
        self._add(2, "tag, p = read_uvarint(b, p)", "size, p = read_uvarint(b, p)", "stop = p + size")
        self._add(2, "if stop > end:", "    raise WireError('a tagged field is longer than its message')")
        for index, field in enumerate(fields):
            self._add(2, f"{'if' if index == 0 else 'elif'} tag == {field.tag}:")
            self._tagged_value(3, field)
            self._add(3, "if p != stop:", f"    raise WireError('tagged field {field.name} is not of its size')")
        self._add(2, "else:", "    p = stop")

    def _tagged_value(self, depth: int, field: Field) -> None:
        if field.kind in FIXED:
            packed = structs.Struct(">" + FIXED[field.kind])
            unpack = self._constant(f"U_{FIXED[field.kind].replace('?', 'Z')}", packed.unpack_from)
            self._add(depth, f"(m.{field.name},) = {unpack}(b, p)", f"p += {packed.size}")
        elif field.kind == "struct" and in_range(self._version, field.nullable):
            assert field.struct is not None
            self._add(depth, "there, p = read_uvarint(b, p)")
            self._add(depth, "if there:", f"    m.{field.name}, p = read_{self._number(field.struct)}(b, p, end)")
            self._add(depth, "else:", f"    m.{field.name} = None")
        else:
            self._value(depth, field, f"m.{field.name}", compact=True)

    def _value(self, depth: int, field: Field, target: str, *, compact: bool) -> None:
        """Read a field of any size into `target`."""
        nullable = in_range(self._version, field.nullable)
        if field.kind == "struct":
            assert field.struct is not None
            read = f"{target}, p = read_{self._number(field.struct)}(b, p, end)"
            if nullable:
                self._add(depth, "there = b[p]", "p += 1", "if there > 127:", f"    {target} = None", "else:")
                self._add(depth + 1, read)
            else:
                self._add(depth, read)
            return
        self._length(depth, field, compact=compact)
        self._add(depth, "if n < 0:")
        refused = f"raise WireError('{field.name} must not be null')"
        self._add(depth + 1, f"{target} = None" if nullable else refused)
        self._add(depth, "else:")
        if field.kind.startswith("[]"):
            self._array(depth + 1, field, target, compact=compact)
        else:
            self._add(depth + 1, "stop_ = p + n", "if stop_ > end:")
            self._add(depth + 2, f"raise WireError('{field.name} is longer than its message')")
            self._add(depth + 1, f"{target} = {_CONVERSIONS[field.kind]}", "p = stop_")

    def _length(self, depth: int, field: Field, *, compact: bool) -> None:
        """Read a length or count into `n`, -1 for null."""
        if compact:
            self._add(depth, "n = b[p] - 1", "p += 1")
            self._add(depth, "if n > 126:", "    n, p = read_uvarint(b, p - 1)", "    n -= 1")
            if field.kind == "string":
                self._add(depth + 1, f"if n > {STRING_BYTES_MAX}:")
                self._add(depth + 2, f"raise WireError('{field.name} is longer than {STRING_BYTES_MAX} bytes')")
        elif field.kind == "string":
            self._add(depth, f"(n,) = {self._constant('U_h', structs.Struct('>h').unpack_from)}(b, p)", "p += 2")
        else:
            self._add(depth, f"(n,) = {self._constant('U_i', structs.Struct('>i').unpack_from)}(b, p)", "p += 4")

    def _count(self, depth: int) -> None:
        """Count an array's elements against what one message may have."""
        self._add(depth, "left[0] -= n", "if left[0] < 0:")
        self._add(depth + 1, f"raise WireError('arrays have more than {self._elements_max} elements')")

    def _least(self, struct: type[Message]) -> int:
        """Return the size of a struct's shortest form: a count is believed only as far as the bytes behind it reach."""
        found = 1 if self._flexible else 0
        for field in struct.FIELDS:
            if not in_range(self._version, field.versions) or (
                self._flexible and in_range(self._version, field.tagged)
            ):
                continue
            if field.kind in FIXED:
                found += structs.calcsize(">" + FIXED[field.kind])
            elif field.kind == "struct":
                assert field.struct is not None
                found += 1 if in_range(self._version, field.nullable) else self._least(field.struct)
            elif self._flexible and field.flexible:
                found += 1
            else:
                found += 2 if field.kind == "string" else 4
        return max(found, 1)

    def _array(self, depth: int, field: Field, target: str, *, compact: bool) -> None:
        element = field.kind[2:]
        too_many = f"raise WireError('{field.name} has more elements than bytes remain')"
        if element in FIXED:
            size = structs.calcsize(">" + FIXED[element])
            self._add(depth, f"if n * {size} > end - p:", f"    {too_many}", f"if n > {SMALL_ARRAY}:")
            self._count(depth + 1)
            if element == "uuid":
                self._add(depth, f"{target} = [bytes(b[q:q + 16]) for q in range(p, p + 16 * n, 16)]")
            else:
                few = self._constant(f"F_{element}", FEW[element])
                self._add(depth, f"if n < {len(FEW[element])}:", f"    {target} = list({few}[n](b, p))", "else:")
                self._add(depth + 1, f"{target} = list(unpack_from('>%d{FIXED[element]}' % n, b, p))")
            self._add(depth, f"p += n * {size}")
            return
        least = 1 if compact else 2
        if element == "struct":
            assert field.struct is not None
            least = self._least(field.struct)
        self._add(depth, f"if n{f' * {least}' if least > 1 else ''} > end - p:", f"    {too_many}")
        self._count(depth)
        self._add(depth, "items = []", "for _i in range(n):")
        if element == "struct":
            assert field.struct is not None
            self._add(depth + 1, f"item, p = read_{self._number(field.struct)}(b, p, end)")
        else:
            inner = Field(field.name, element, field.versions)
            self._value(depth + 1, inner, "item", compact=compact)
        self._add(depth + 1, "items.append(item)")
        self._add(depth, f"{target} = items")


_CONVERSIONS = {
    "string": "str(b[p:stop_], 'utf-8')",
    "bytes": "bytes(b[p:stop_])",
    "records": "b[p:stop_]",
}
