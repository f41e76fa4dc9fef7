"""The Python source of a writer: one function per struct, `write_0` for the message itself."""

from __future__ import annotations

import struct as structs
from typing import Any

from ottla.wire.codec_source import CodecSource, in_range
from ottla.wire.message import Field, Message
from ottla.wire.reader_source import FIXED, STRING_BYTES_MAX

__all__ = ["writer_source"]

FEW = {kind: [structs.Struct(f">{n}{code}").pack for n in range(9)] for kind, code in FIXED.items()}
"""Writers of up to eight numbers; making a format costs as much as writing."""


def writer_source(cls: type[Message], version: int) -> tuple[str, dict[str, Any]]:
    """Return the source of one version's functions, and the constants that it names."""
    return _Source(cls, version).finished()


class _Source(CodecSource):
    """Writes the functions of a writer."""

    def _struct(self, struct: type[Message]) -> None:
        number = self._numbers[struct]
        defaults = struct()
        self._add(0, f"def write_{number}(m, o):")
        run: list[Field] = []
        tagged: list[Field] = []
        for field in struct.FIELDS:
            if self._flexible and in_range(self._version, field.tagged):
                tagged.append(field)
            elif not in_range(self._version, field.versions):
                if not field.ignorable:
                    self._absent(struct, number, defaults, field)
            elif field.kind in FIXED:
                run.append(field)
            else:
                self._fixed(run)
                self._value(1, field, f"m.{field.name}", compact=self._flexible and field.flexible)
        self._fixed(run)
        if self._flexible:
            self._tagged(number, defaults, tagged)
        elif not struct.FIELDS:
            self._add(1, "pass")
        self._add(1, "return None")

    def _is_default(self, number: int, defaults: Message, field: Field, value: str) -> str:
        """Return an expression that is true where a field has its default."""
        default = getattr(defaults, field.name)
        if default is None:
            return f"{value} is None"
        if field.kind.startswith("[]") or field.kind in ("string", "bytes", "records"):
            if not default:
                return f"{value} is not None and not len({value})"
            return f"{value} == {default!r}"
        if isinstance(default, bool | int | float | bytes):
            return f"{value} == {default!r}"
        return f"{value} == {self._constant(f'D{number}_{field.name}', default)}"

    def _absent(self, struct: type[Message], number: int, defaults: Message, field: Field) -> None:
        """Refuse a value that this version cannot carry."""
        self._add(1, f"if not ({self._is_default(number, defaults, field, f'm.{field.name}')}):")
        self._add(2, f"raise lacking('{struct.__name__}', '{field.name}', {self._version})")

    def _fixed(self, run: list[Field]) -> None:
        """Write a run of fixed-size fields at once."""
        if not run:
            return
        packed = structs.Struct(">" + "".join(FIXED[field.kind] for field in run))
        pack = self._constant(f"P_{packed.format[1:].replace('?', 'Z')}", packed.pack)
        self._add(1, f"o += {pack}({', '.join(f'm.{field.name}' for field in run)})")
        run.clear()

    def _tagged(self, number: int, defaults: Message, fields: list[Field]) -> None:
        """Write the tagged section: in the order of tags, without the fields that have their default."""
        if not fields:
            self._add(1, "o += b'\\0'")
            return
        self._add(1, "tags = []")
        for field in sorted(fields, key=lambda each: each.tag or 0):
            # a struct that may be null is always written: to Kafka its default is an empty one, so that absence is not null
            nullable_struct = field.kind == "struct" and in_range(self._version, field.nullable)
            default = "False" if nullable_struct else self._is_default(number, defaults, field, f"m.{field.name}")
            self._add(1, f"if not ({default}):")
            self._add(2, "outer, o = o, bytearray()")
            self._tagged_value(2, field)
            self._add(2, f"tags.append(({field.tag}, o))", "o = outer")
        self._add(1, "o += uvarint(len(tags))", "for tag, value in tags:")
        self._add(2, "o += uvarint(tag)", "o += uvarint(len(value))", "o += value")

    def _tagged_value(self, depth: int, field: Field) -> None:
        if field.kind in FIXED:
            pack = self._constant(
                f"P_{FIXED[field.kind].replace('?', 'Z')}", structs.Struct(">" + FIXED[field.kind]).pack
            )
            self._add(depth, f"o += {pack}(m.{field.name})")
        elif field.kind == "struct" and in_range(self._version, field.nullable):
            assert field.struct is not None
            self._add(depth, f"if m.{field.name} is None:", "    o += b'\\0'", "else:", "    o += b'\\1'")
            self._add(depth + 1, f"write_{self._number(field.struct)}(m.{field.name}, o)")
        else:
            self._value(depth, field, f"m.{field.name}", compact=True)

    def _value(self, depth: int, field: Field, value: str, *, compact: bool) -> None:
        """Write a field of any size."""
        nullable = in_range(self._version, field.nullable)
        self._add(depth, f"v = {value}")
        if nullable:
            self._add(depth, "if v is None:")
            self._add(depth + 1, f"o += {self._null(field.kind, compact=compact)!r}")
            self._add(depth, "else:")
            depth += 1
        elif field.kind != "struct":
            self._add(depth, "if v is None:", f"    raise TypeError('{field.name} must not be null')")
        if field.kind == "struct":
            assert field.struct is not None
            if nullable:
                self._add(depth, "o += b'\\1'")
            self._add(depth, f"write_{self._number(field.struct)}(v, o)")
            return
        if field.kind == "string":
            self._add(depth, "v = v.encode()", f"if len(v) > {STRING_BYTES_MAX}:")
            self._add(depth + 1, f"raise ValueError('{field.name} is longer than {STRING_BYTES_MAX} bytes')")
        self._length(depth, field.kind, compact=compact)
        if field.kind.startswith("[]"):
            self._array(depth, field, compact=compact)
        else:
            self._add(depth, "o += v")

    def _null(self, kind: str, *, compact: bool) -> bytes:
        if kind == "struct":
            return b"\xff"
        if compact:
            return b"\0"
        return b"\xff\xff" if kind == "string" else b"\xff\xff\xff\xff"

    def _length(self, depth: int, kind: str, *, compact: bool) -> None:
        if compact:
            self._add(depth, "n = len(v) + 1", "if n < 128:", "    o.append(n)", "else:", "    o += uvarint(n)")
        else:
            letter = "h" if kind == "string" else "i"
            pack = self._constant(f"P_{letter}", structs.Struct(">" + letter).pack)
            self._add(depth, f"o += {pack}(len(v))")

    def _array(self, depth: int, field: Field, *, compact: bool) -> None:
        element = field.kind[2:]
        if element == "uuid":
            self._add(depth, "for item in v:", "    o += pack('>16s', item)")
        elif element in FIXED:
            few = self._constant(f"F_{element}", FEW[element])
            self._add(depth, f"if len(v) < {len(FEW[element])}:", f"    o += {few}[len(v)](*v)", "else:")
            self._add(depth + 1, f"o += pack('>%d{FIXED[element]}' % len(v), *v)")
        elif element == "struct":
            assert field.struct is not None
            self._add(depth, "for item in v:", f"    write_{self._number(field.struct)}(item, o)")
        else:
            self._add(depth, "for item in v:")
            inner = Field(field.name, element, field.versions)
            self._value(depth + 1, inner, "item", compact=compact)
