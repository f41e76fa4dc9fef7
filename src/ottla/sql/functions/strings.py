"""Functions of texts. Places count from 1; a negative one counts from the end."""

from __future__ import annotations

import hashlib
import re
import unicodedata
import uuid

from ottla.sql.errors import EvaluationError
from ottla.sql.functions.java_regex import found_in, java_pattern, matches, replaced_all
from ottla.sql.functions.java_regex import split as split_java
from ottla.sql.functions.registry import ELEMENTS_MAX, check_size, scalar


@scalar("UCASE", "STRING -> STRING")
def upper(text: str) -> str:
    """The text in upper case."""
    return text.upper()


@scalar("LCASE", "STRING -> STRING")
def lower(text: str) -> str:
    """The text in lower case."""
    return text.lower()


_WORD = re.compile(r"[^\s]+\s*", re.ASCII)


@scalar("INITCAP", "STRING -> STRING")
def initial_capitals(text: str) -> str:
    """The text from its first word on, each with its first letter in upper case and all others in lower case."""
    return _WORD.sub(lambda found: found[0][0].upper() + found[0][1:], text.lower().lstrip(" \t\n\x0b\f\r"))


@scalar("LEN", "STRING -> INTEGER", "BYTES -> INTEGER")
def length(value: str | bytes) -> int:
    """How many characters a text has (UTF-16 units, as Java counts), or bytes."""
    return len(value) if isinstance(value, bytes) else len(value.encode("utf-16-le", "surrogatepass")) // 2


@scalar("TRIM", "STRING -> STRING")
def trimmed(text: str) -> str:
    """The text without what is no more than a space at its ends."""
    return text.strip("".join(map(chr, range(33))))


@scalar("CONCAT", "STRING… -> STRING", nulls=True)
@scalar("CONCAT", "BYTES… -> BYTES", nulls=True)
def concatenated(*values: str | bytes | None) -> str | bytes | None:
    """All arguments in a row; nulls are left out."""
    known = [value for value in values if value is not None]
    check_size("CONCAT", sum(map(len, known)))
    if any(isinstance(value, bytes) for value in known):
        return b"".join(value for value in known if isinstance(value, bytes))
    return "".join(value for value in known if isinstance(value, str))


@scalar("CONCAT_WS", "STRING, STRING… -> STRING", nulls=True)
@scalar("CONCAT_WS", "BYTES, BYTES… -> BYTES", nulls=True)
def concatenated_with(separator: str | bytes | None, *values: str | bytes | None) -> str | bytes | None:
    """All arguments behind the first, which stands between them; nulls are left out."""
    if separator is None:
        return None
    check_size("CONCAT_WS", len(separator) * len(values) + sum(len(value) for value in values if value is not None))
    if isinstance(separator, bytes):
        return separator.join(value for value in values if isinstance(value, bytes))
    return separator.join(value for value in values if isinstance(value, str))


def units(text: str) -> str:
    """A text as Java counts it: two surrogates in the place of a character beyond the first 65,536."""
    if text.isascii() or max(text) <= "\uffff":
        return text
    return "".join(each if each <= "\uffff" else _surrogates(each) for each in text)


def _surrogates(character: str) -> str:
    code = ord(character) - 0x10000
    return chr(0xD800 | code >> 10) + chr(0xDC00 | code & 0x3FF)


def joined(text: str) -> str:
    """A text of Java's units with each pair of surrogates as the character that it is."""
    return (
        text
        if text.isascii() or not _PAIR.search(text)
        else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    )


_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


@scalar("SUBSTRING", "STRING, INTEGER -> STRING", "BYTES, INTEGER -> BYTES")
def substring(value: str | bytes, place: int) -> str | bytes:
    """What begins at a place."""
    if isinstance(value, bytes):
        return value[_start(len(value), place) :]
    given = units(value)
    return joined(given[_start(len(given), place) :])


@scalar("SUBSTRING", "STRING, INTEGER, INTEGER -> STRING", "BYTES, INTEGER, INTEGER -> BYTES")
def substring_of(value: str | bytes, place: int, count: int) -> str | bytes:
    """So much of what begins at a place."""
    given = value if isinstance(value, bytes) else units(value)
    start = _start(len(given), place)
    found = given[start : min(start + max(count, 0), len(given))]
    return found if isinstance(found, bytes) else joined(found)


def _start(size: int, place: int) -> int:
    return max(min(place - 1, size), 0) if place >= 0 else max(size + place, 0)


@scalar("INSTR", "STRING, STRING -> INTEGER", nulls=True)
def found_at(text: str | None, part: str | None) -> int:
    """The place of a part in a text, 0 where it is not in it, or where one is null."""
    return found_again(text, part, 1, 1)


@scalar("INSTR", "STRING, STRING, INTEGER -> INTEGER", nulls=True)
def found_from(text: str | None, part: str | None, place: int | None) -> int:
    """The place of a part in a text, looked for from a place on; backwards from the end where that is negative."""
    return found_again(text, part, place, 1)


@scalar("INSTR", "STRING, STRING, INTEGER, INTEGER -> INTEGER", nulls=True)
def found_again(text: str | None, part: str | None, place: int | None, occurrence: int | None) -> int:
    """The place where a part stands in a text for so many times, looked for from a place on."""
    if place is None or occurrence is None:
        raise EvaluationError("INSTR: place and occurrence cannot be null")
    if text is None or part is None or not place:
        return 0
    given, wanted = units(text), units(part)
    if abs(place) > len(given):
        return 0
    if place > 0:
        at = _ordinal(given[place - 1 :], wanted, occurrence)
        return at + place if at >= 0 else 0
    at = _ordinal(given[::-1][-place - 1 :], wanted[::-1], occurrence)
    return len(given) + place - at - len(wanted) + 2 if at >= 0 else 0


def _ordinal(text: str, part: str, occurrence: int) -> int:
    """Where a part begins in a text for so many times, those that overlap counted; -1 where it does not."""
    if occurrence <= 0:
        return -1
    if not part:
        return 0
    at = -1
    for _ in range(occurrence):
        at = text.find(part, at + 1)
        if at < 0:
            break
    return at


@scalar("REPLACE", "STRING, STRING, STRING -> STRING")
def replaced(text: str, old: str, new: str) -> str:
    """The text with every occurrence of one part replaced by another."""
    if len(new) > len(old):
        check_size("REPLACE", len(text) + text.count(old) * (len(new) - len(old)))
    return text.replace(old, new)


def _padded(value: str | bytes, size: int, pad: str | bytes, *, left: bool) -> object:
    if size < 0 or not pad:
        return None
    check_size("a pad", size)
    if isinstance(value, bytes):
        return _filled(value, size, pad, left=left)
    found = _filled(units(value), size, units(str(pad)), left=left)
    assert isinstance(found, str), value
    return joined(found)


def _filled(value: str | bytes, size: int, pad: str | bytes, *, left: bool) -> str | bytes:
    missing = max(size - len(value), 0)
    fill = (pad * (missing // len(pad) + 1))[:missing]
    return fill + value[:size] if left else value[:size] + fill  # type: ignore[operator]


@scalar("LPAD", "STRING, INTEGER, STRING -> STRING", "BYTES, INTEGER, BYTES -> BYTES")
def left_padded(value: str | bytes, size: int, pad: str | bytes) -> object:
    """The value in a size: cut, or with another repeated in front of it."""
    return _padded(value, size, pad, left=True)


@scalar("RPAD", "STRING, INTEGER, STRING -> STRING", "BYTES, INTEGER, BYTES -> BYTES")
def right_padded(value: str | bytes, size: int, pad: str | bytes) -> object:
    """The value in a size: cut, or with another repeated behind it."""
    return _padded(value, size, pad, left=False)


@scalar("SPLIT", "STRING, STRING -> ARRAY<STRING>")
@scalar("SPLIT", "BYTES, BYTES -> ARRAY<BYTES>")
def split(value: str | bytes, separator: str | bytes) -> object:
    """The parts of a value between separators; every character where the separator is empty."""
    if not value:
        return [value]
    check_size("SPLIT", value.count(separator) + 1, ELEMENTS_MAX)  # type: ignore[arg-type]
    if not separator:
        return list(units(value)) if isinstance(value, str) else [bytes((each,)) for each in value]
    return value.split(separator)  # type: ignore[arg-type]


@scalar("SPLIT_TO_MAP", "STRING, STRING, STRING -> MAP<STRING, STRING>")
def split_to_map(text: str, between: str, within: str) -> dict[str, str] | None:
    """Entries of a text as a map: `between` stands between two, `within` between a key and its value."""
    if not between or not within or between == within:
        return None
    pairs = (entry.split(within) for entry in text.split(between) if within in entry)
    return {pair[0]: pair[1] for pair in pairs}


@scalar("CHR", "INTEGER -> STRING")
def character(code: int) -> str | None:
    """The character of a code point."""
    return chr(code) if 0 <= code <= 0x10FFFF else None


@scalar("CHR", "STRING -> STRING")
def character_of_text(code: str) -> str | None:
    r"""What a text that begins with `\uXXXX` says, escapes of Java's in it replaced."""
    if len(code) < 6 or not code.startswith("\\u"):
        return None
    return joined(_ESCAPE.sub(_unescaped, code))


_ESCAPE = re.compile(r"\\(u+\+?[0-9A-Fa-f]{4}|[0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED = {"b": "\b", "n": "\n", "t": "\t", "f": "\f", "r": "\r"}


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] == "u":
        if len(code) < 5:
            raise EvaluationError(f"Less than 4 hex digits in unicode value: '{found.string[found.start() :]}'")
        return chr(int(code[-4:], 16))
    return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPED.get(code, code)


@scalar("MD5", "STRING -> STRING")
def md5(text: str) -> str:
    """The MD5 of a text's UTF-8, in hexadecimal."""
    return hashlib.md5(text.encode(errors="replace"), usedforsecurity=False).hexdigest()


@scalar("UUID", "-> STRING")
def random_uuid() -> str:
    """A random UUID."""
    return str(uuid.uuid4())


@scalar("UUID", "BYTES -> STRING")
def uuid_of(value: bytes) -> str | None:
    """The UUID that sixteen bytes are."""
    return str(uuid.UUID(bytes=value)) if len(value) == 16 else None


# -- masks

_MASKS = ("X", "x", "n", "-")


def _masked(text: str, masks: tuple[str | None, ...]) -> str:
    def one(character: str) -> str:
        kind = unicodedata.category(character)
        mask = masks[0 if kind == "Lu" else 1 if kind == "Ll" else 2 if kind == "Nd" else 3]
        return character if mask is None else mask

    return "".join(map(one, text))


def _masks(given: tuple[str | None, ...]) -> tuple[str | None, ...]:
    for each in given:
        if each is not None and len(each) != 1:
            raise EvaluationError(f"Invalid mask character. Must be only single character, but was '{each}'")
    return given or _MASKS


def _count(name: str, count: int | None) -> int:
    if count is None or count < 0:
        raise EvaluationError(f"function {name} requires a non-negative number of characters to mask or skip")
    return count


_FOUR = "STRING, STRING, STRING, STRING"


@scalar("MASK", "STRING -> STRING", f"STRING, {_FOUR} -> STRING", nulls=True)
def mask(text: str | None, *masks: str | None) -> str | None:
    """The text with letters and digits replaced: upper case, lower case, digits, others; null keeps them."""
    return None if text is None else _masked(text, _masks(masks))


@scalar("MASK_LEFT", "STRING, INTEGER -> STRING", f"STRING, INTEGER, {_FOUR} -> STRING", nulls=True)
def mask_left(text: str | None, count: int | None, *masks: str | None) -> str | None:
    """The text with so many characters at its beginning replaced."""
    size = _count("mask_left", count)
    return None if text is None else _masked(text[:size], _masks(masks)) + text[size:]


@scalar("MASK_RIGHT", "STRING, INTEGER -> STRING", f"STRING, INTEGER, {_FOUR} -> STRING", nulls=True)
def mask_right(text: str | None, count: int | None, *masks: str | None) -> str | None:
    """The text with so many characters at its end replaced."""
    if text is None:
        return None
    at = max(len(text) - _count("mask_right", count), 0)
    return text[:at] + _masked(text[at:], _masks(masks))


@scalar("MASK_KEEP_LEFT", "STRING, INTEGER -> STRING", f"STRING, INTEGER, {_FOUR} -> STRING", nulls=True)
def mask_keep_left(text: str | None, count: int | None, *masks: str | None) -> str | None:
    """The text with all replaced but so many characters at its beginning."""
    size = _count("mask_keep_left", count)
    return None if text is None else text[:size] + _masked(text[size:], _masks(masks))


@scalar("MASK_KEEP_RIGHT", "STRING, INTEGER -> STRING", f"STRING, INTEGER, {_FOUR} -> STRING", nulls=True)
def mask_keep_right(text: str | None, count: int | None, *masks: str | None) -> str | None:
    """The text with all replaced but so many characters at its end."""
    if text is None:
        return None
    at = max(len(text) - _count("mask_keep_right", count), 0)
    return _masked(text[:at], _masks(masks)) + text[at:]


# -- regular expressions


@scalar("REGEXP_EXTRACT", "STRING, STRING -> STRING")
def extracted(pattern: str, text: str) -> str | None:
    """The first part of a text that matches a pattern."""
    return extracted_group(pattern, text, 0)


@scalar("REGEXP_EXTRACT", "STRING, STRING, INTEGER -> STRING")
def extracted_group(pattern: str, text: str, group: int) -> str | None:
    """A group of the first part of a text that matches a pattern."""
    found = found_in(pattern, text)
    return found[group] if found is not None and 0 <= group <= found.re.groups else None


@scalar("REGEXP_EXTRACT_ALL", "STRING, STRING -> ARRAY<STRING>")
def extracted_all(pattern: str, text: str) -> list[str | None] | None:
    """Every part of a text that matches a pattern."""
    return extracted_all_groups(pattern, text, 0)


@scalar("REGEXP_EXTRACT_ALL", "STRING, STRING, INTEGER -> ARRAY<STRING>")
def extracted_all_groups(pattern: str, text: str, group: int) -> list[str | None] | None:
    """A group of every part of a text that matches a pattern."""
    known = java_pattern(pattern)
    return [found[group] for found in matches(known, text)] if 0 <= group <= known.groups else None


@scalar("REGEXP_REPLACE", "STRING, STRING, STRING -> STRING")
def replaced_by_pattern(text: str, pattern: str, new: str) -> str:
    """The text with every part that matches a pattern replaced; `$1` names a group."""
    return replaced_all(pattern, text, new)


@scalar("REGEXP_SPLIT_TO_ARRAY", "STRING, STRING -> ARRAY<STRING>")
def split_by_pattern(text: str, pattern: str) -> list[str]:
    """The parts of a text between what matches a pattern."""
    return split_java(pattern, text)
