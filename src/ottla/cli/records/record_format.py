"""Format strings for records, out and in: `%t %p %o %k %v %h %d\\n`, with the verbs of rpk and kcat.

=====  =============================  =======================================
verb   means                          modifiers in braces
=====  =============================  =======================================
%t     the topic                      hex, base64, json
%k %v  key and value (%s is %v too)   hex, base64, json; for numbers that
                                      are bytes big8 … big64, little8 …
                                      little64 (signed), unpack[…]
%h     headers, as `name=value,…`     json: a list of pairs
%p %o  partition and offset           big8 … big64, little8 … little64
%d %e  time in ms, and leader epoch   the same
%i     how many records so far        the same
%T %K  sizes in bytes of the next     the same
%V %S  topic, key, value
%%     a percent sign
=====  =============================  =======================================

`\\n`, `\\t`, `\\0`, `\\\\` and `\\x1f` stand for their characters. What a format writes it reads
again, where every field ends at the text that follows it or has its size before it; `unpack` is for writing only.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from ottla.base import ErrorCode, KafkaError
from ottla.cli.records.binary_numbers import UNPACK, packed, unpack_letters, unpacked
from ottla.cli.records.line_reader import Line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ottla.cli.records.formatters import Formatter
    from ottla.cli.records.record_reader import ConsumedRecord

__all__ = ["FormatReader", "compile_format", "format_renderer"]

ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
TOKEN = re.compile(
    r"%(?P<verb>.)(?:\{(?P<modifier>[a-z0-9]+(?:\[[^\]]*\])?)\})?|\\x(?P<hex>[0-9a-fA-F]{2})|\\(?P<escape>.)", re.DOTALL
)
ALIASES = {"s": "v", "S": "V"}
TEXTS, NUMBERS, SIZES = "tkv", "podei", {"T": "t", "K": "k", "V": "v"}
TEXT_MODIFIERS = ("hex", "base64", "json")
INTEGER = re.compile(r"(big|little)(8|16|32|64)")
INTEGERS = "big8, big16, big32, big64, little8, little16, little32, little64"
WORDS = {"k": "key", "v": "value"}
READ_BYTES = 1 << 16
FIELD_BYTES_MAX = 1 << 30


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _quoted(data: bytes | bytearray) -> str:
    return repr(bytes(data).decode(errors="backslashreplace"))


@dataclass(frozen=True, slots=True)
class Field:
    """One verb with its modifier, such as `%v{base64}`."""

    verb: str
    modifier: str | None = None

    def __str__(self) -> str:
        return f"%{self.verb}" + (f"{{{self.modifier}}}" if self.modifier else "")

    @property
    def has_fixed_size(self) -> bool:
        """True where what is read or written is a number's bytes."""
        return self.verb not in TEXTS and self.integer is not None

    @property
    def integer(self) -> tuple[str, int] | None:
        """Byte order and size in bytes where the field is a binary number; of a key or value what its bytes are."""
        match = INTEGER.fullmatch(self.modifier or "")
        return (match[1], int(match[2]) // 8) if match else None


Part = bytes | Field


def compile_format(text: str) -> list[Part]:
    """Return literals and fields in order; raises KafkaError for a verb or modifier that does not exist."""
    parts: list[Part] = []

    def literal(data: bytes) -> None:
        if data and parts and isinstance(parts[-1], bytes):
            parts[-1] += data
        elif data:
            parts.append(data)

    end = 0
    for match in TOKEN.finditer(text):
        literal(text[end : match.start()].encode())
        end = match.end()
        if match["hex"]:
            literal(bytes.fromhex(match["hex"]))
        elif match["escape"]:
            if match["escape"] not in ESCAPES:
                raise _refused(f"\\{match['escape']} is no escape in a format; \\n, \\t, \\r, \\0, \\\\ and \\x1f are")
            literal(ESCAPES[match["escape"]])
        elif match["verb"] == "%":
            literal(b"%")
        else:
            parts.append(_field(ALIASES.get(match["verb"], match["verb"]), match["modifier"]))
    rest = text[end:]
    if "%" in rest or "\\" in rest:
        raise _refused(f"the format ends in the middle of a verb or an escape: {rest}")
    literal(rest.encode())
    return parts


def _field(verb: str, modifier: str | None) -> Field:
    field = Field(verb, modifier)
    allowed = {"h": ("json",)} | dict.fromkeys(TEXTS, TEXT_MODIFIERS)
    if verb in allowed:
        if modifier is not None and modifier not in allowed[verb] and not _is_number_in_bytes(field):
            numbers = f", {INTEGERS}, unpack[LETTERS]" if verb in "kv" else ""
            raise _refused(f"{field}: %{verb} takes {', '.join(allowed[verb])}{numbers}")
    elif verb not in NUMBERS and verb not in SIZES:
        raise _refused(f"%{verb} is no verb of a format; %t %p %o %k %v %h %d %e %i %T %K %V and %% are")
    elif modifier is not None and field.integer is None:
        raise _refused(f"{field}: %{verb} takes {INTEGERS}")
    return field


def _is_number_in_bytes(field: Field) -> bool:
    try:
        return field.verb in "kv" and (field.integer is not None or unpack_letters(field.modifier) is not None)
    except ValueError as error:
        raise _refused(f"{field}: {error}") from None


# -- records → bytes


def format_renderer(text: str) -> Formatter:
    """Return what writes a record by a format; raises KafkaError for a format that is none."""
    parts = compile_format(text)
    count = 0

    def render(record: ConsumedRecord) -> bytes:
        nonlocal count
        count += 1
        return b"".join(part if isinstance(part, bytes) else _rendered(part, record, count) for part in parts)

    return render


def _rendered(field: Field, record: ConsumedRecord, count: int) -> bytes:
    texts = {"t": record.topic.encode(), "k": record.key, "v": record.value}
    if field.verb in texts:
        try:
            return _modified(texts[field.verb], field)
        except ValueError as error:
            place = f"{record.topic}-{record.partition} at offset {record.offset}"
            raise KafkaError(ErrorCode.INVALID_RECORD, f"{place}: {field}: {error}") from None
    if field.verb == "h":
        return _headers(record.headers, field.modifier)
    if field.verb in SIZES:
        return _number(len(texts[SIZES[field.verb]] or b""), field)
    numbers = {
        "p": record.partition,
        "o": record.offset,
        "d": record.timestamp,
        "e": record.leader_epoch,
        "i": count,
    }
    return _number(numbers[field.verb], field)


def _modified(data: bytes | None, field: Field) -> bytes:
    """Return a text as its modifier has it; raises ValueError where the bytes are no such number."""
    match field.modifier:
        case "json":
            return json.dumps(None if data is None else data.decode(errors="replace"), ensure_ascii=False).encode()
        case "hex":
            return (data or b"").hex().encode()
        case "base64":
            return b64encode(data or b"")
    if field.modifier is None or data is None:
        return data or b""
    letters = unpack_letters(field.modifier)
    if letters is not None:
        return unpacked(data, letters).encode()
    assert field.integer is not None
    order, size = field.integer
    if len(data) != size:
        raise ValueError(f"the {WORDS[field.verb]} has {len(data)} bytes, not {size}")
    return str(int.from_bytes(data, "big" if order == "big" else "little", signed=True)).encode()


def _headers(headers: Sequence[tuple[str, bytes | None]], modifier: str | None) -> bytes:
    if modifier == "json":
        pairs = [[name, None if value is None else value.decode(errors="replace")] for name, value in headers]
        return json.dumps(pairs, ensure_ascii=False, separators=(",", ":")).encode()
    return b",".join(name.encode() + b"=" + (value or b"") for name, value in headers)


def _number(value: int, field: Field) -> bytes:
    if field.integer is None:
        return str(value).encode()
    order, size = field.integer
    try:
        return value.to_bytes(size, "big" if order == "big" else "little", signed=value < 0)
    except OverflowError:
        raise _refused(f"{field}: {value} does not fit into {size} bytes") from None


# -- bytes → records


class FormatReader:
    """Cuts a stream of bytes into records by a format."""

    def __init__(self, text: str) -> None:
        self._parts = compile_format(text)
        self._sizes: dict[str, int] = {}
        self._buffer = bytearray()
        self._number = 0
        self._check()

    def _check(self) -> None:
        if not any(isinstance(part, Field) and part.verb in "kv" for part in self._parts):
            raise _refused("a format that is read needs %k or %v")
        for part in self._parts:
            if isinstance(part, Field) and UNPACK.match(part.modifier or ""):
                raise _refused(f"{part} is for writing; big8 … little64 are read, too")
        for index, part in enumerate(self._parts[:-1]):
            if isinstance(part, bytes) or part.has_fixed_size or self._has_size(part, index):
                continue
            if not isinstance(self._parts[index + 1], bytes):
                raise _refused(f"nothing says where {part} ends: put text behind it, or its size before it")

    def _has_size(self, field: Field, index: int) -> bool:
        return any(isinstance(part, Field) and SIZES.get(part.verb) == field.verb for part in self._parts[:index])

    def read(self, source: BinaryIO) -> Iterator[Line]:
        """Yield the records; raises KafkaError that says which record does not have the form."""
        while self._fill(source, 1):
            self._number += 1
            yield self._record(source)

    def _fill(self, source: BinaryIO, size: int) -> bool:
        """Read until so many bytes wait; false where the input ends before."""
        while len(self._buffer) < size:
            data = getattr(source, "read1", source.read)(READ_BYTES)
            if not data:
                return False
            self._buffer += data
        return True

    def _record(self, source: BinaryIO) -> Line:
        self._sizes = {}
        found: dict[str, bytes] = {}
        for index, part in enumerate(self._parts):
            is_last = index == len(self._parts) - 1
            if isinstance(part, bytes):
                self._literal(source, part, may_miss=is_last)
                continue
            data = self._taken(source, part, None if is_last else self._parts[index + 1])
            if part.verb in SIZES:
                self._sizes[SIZES[part.verb]] = self._whole(part, data)
            else:
                found[part.verb] = self._plain(part, data)
        return self._line(found)

    def _literal(self, source: BinaryIO, text: bytes, *, may_miss: bool) -> None:
        whole = self._fill(source, len(text))
        if whole and self._buffer.startswith(text):
            del self._buffer[: len(text)]
        elif whole or self._buffer or not may_miss:  # the last line may lack its end
            raise self._wrong(f"{_quoted(text)} is expected at {_quoted(self._buffer[:20])}")

    def _taken(self, source: BinaryIO, field: Field, following: Part | None) -> bytes:
        if field.has_fixed_size and field.integer is not None:
            return self._exactly(source, field, field.integer[1])
        if field.verb in self._sizes:
            return self._exactly(source, field, self._sizes[field.verb])
        if not isinstance(following, bytes):
            while self._fill(source, len(self._buffer) + 1):
                pass
            return self._cut(len(self._buffer))
        searched = 0
        while True:
            end = self._buffer.find(following, max(0, searched - len(following) + 1))
            if end >= 0:
                return self._cut(end)
            searched = len(self._buffer)
            if searched > FIELD_BYTES_MAX or not self._fill(source, searched + 1):
                if following is self._parts[-1]:
                    return self._cut(len(self._buffer))
                raise self._wrong(f"no {_quoted(following)} after {field}")

    def _exactly(self, source: BinaryIO, field: Field, size: int) -> bytes:
        if not 0 <= size <= FIELD_BYTES_MAX:
            raise self._wrong(f"{size} bytes for {field}")
        if not self._fill(source, size):
            raise self._wrong(f"the input ends in the middle of {field}")
        return self._cut(size)

    def _cut(self, size: int) -> bytes:
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def _whole(self, field: Field, data: bytes) -> int:
        if field.integer is not None:
            return int.from_bytes(data, "big" if field.integer[0] == "big" else "little")
        try:
            return int(data)
        except ValueError:
            raise self._wrong(f"{field} is no number: {_quoted(data)}") from None

    def _plain(self, field: Field, data: bytes) -> bytes:
        if field.verb in NUMBERS:
            return str(self._whole(field, data)).encode()
        decoders: dict[str, Callable[[bytes], bytes]] = {
            "hex": lambda text: bytes.fromhex(text.decode("ascii")),
            "base64": lambda text: b64decode(text, validate=True),
        }
        if field.verb != "h" and field.modifier == "json":
            return self._json_text(field, data)
        try:
            if field.verb in "kv" and field.integer is not None:
                return packed(data, *field.integer)
            return decoders[field.modifier](data) if field.modifier in decoders else data
        except ValueError as error:
            raise self._wrong(f"{field}: {error}") from None

    def _json_text(self, field: Field, data: bytes) -> bytes:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self._wrong(f"{field}: {error}") from None
        return value.encode() if isinstance(value, str) else data

    def _line(self, found: dict[str, bytes]) -> Line:
        return Line(
            key=found.get("k"),
            value=found.get("v"),
            headers=self._pairs(found.get("h", b"")),
            topic=found["t"].decode(errors="replace") if "t" in found else None,
            partition=int(found.get("p", b"-1")),
            timestamp=int(found.get("d", b"0")),
        )

    def _pairs(self, text: bytes) -> list[tuple[str, bytes | None]]:
        if not text:
            return []
        if text.startswith(b"["):
            try:
                return [(name, None if value is None else value.encode()) for name, value in json.loads(text)]
            except (ValueError, TypeError, AttributeError, RecursionError) as error:
                raise self._wrong(f"headers: {error}") from None
        pairs = (pair.partition(b"=") for pair in text.split(b","))
        return [(name.decode(errors="replace"), value) for name, _, value in pairs]

    def _wrong(self, message: str) -> KafkaError:
        return KafkaError(ErrorCode.INVALID_RECORD, f"record {self._number}: {message}")
