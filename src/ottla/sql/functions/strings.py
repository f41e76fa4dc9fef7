"""Functions of texts. Places count from 1; a negative one counts from the end."""

from __future__ import annotations

import hashlib
import re
import unicodedata
import uuid

from ottla.sql.errors import EvaluationError
from ottla.sql.functions.java_regex import java_pattern, matches, replaced_all
from ottla.sql.functions.java_regex import split as split_java
from ottla.sql.functions.registry import check_size, scalar


@scalar("UCASE", "STRING -> STRING")
def upper(text: str) -> str:
    """The text in upper case."""
    return text.upper()


@scalar("LCASE", "STRING -> STRING")
def lower(text: str) -> str:
    """The text in lower case."""
    return text.lower()


@scalar("INITCAP", "STRING -> STRING")
def initial_capitals(text: str) -> str:
    """The text with the first letter of each word in upper case and all others in lower case."""
    return re.sub(r"\S+", lambda found: found[0][0].upper() + found[0][1:].lower(), text)


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
    if any(isinstance(value, bytes) for value in known):
        return b"".join(value for value in known if isinstance(value, bytes))
    return "".join(value for value in known if isinstance(value, str))


@scalar("CONCAT_WS", "STRING, STRING… -> STRING", nulls=True)
@scalar("CONCAT_WS", "BYTES, BYTES… -> BYTES", nulls=True)
def concatenated_with(separator: str | bytes | None, *values: str | bytes | None) -> str | bytes | None:
    """All arguments behind the first, which stands between them; nulls are left out."""
    if separator is None:
        return None
    if isinstance(separator, bytes):
        return separator.join(value for value in values if isinstance(value, bytes))
    return separator.join(value for value in values if isinstance(value, str))


@scalar("SUBSTRING", "STRING, INTEGER -> STRING", "BYTES, INTEGER -> BYTES")
def substring(value: str | bytes, place: int) -> str | bytes:
    """What begins at a place."""
    return value[_start(len(value), place) :]


@scalar("SUBSTRING", "STRING, INTEGER, INTEGER -> STRING", "BYTES, INTEGER, INTEGER -> BYTES")
def substring_of(value: str | bytes, place: int, count: int) -> str | bytes:
    """So much of what begins at a place."""
    start = _start(len(value), place)
    return value[start : min(start + max(count, 0), len(value))]


def _start(size: int, place: int) -> int:
    return max(min(place - 1, size), 0) if place >= 0 else max(size + place, 0)


@scalar("INSTR", "STRING, STRING -> INTEGER")
def found_at(text: str, part: str) -> int:
    """The place of a part in a text, 0 where it is not in it."""
    return text.find(part) + 1


@scalar("INSTR", "STRING, STRING, INTEGER -> INTEGER")
def found_from(text: str, part: str, place: int) -> int:
    """The place of a part in a text, looked for from a place on; backwards from the end where that is negative."""
    return found_again(text, part, place, 1)


@scalar("INSTR", "STRING, STRING, INTEGER, INTEGER -> INTEGER")
def found_again(text: str, part: str, place: int, occurrence: int) -> int:
    """The place where a part stands in a text for so many times, looked for from a place on."""
    if place == 0 or abs(place) > len(text):
        return 0
    at = place - 2 if place > 0 else len(text) + place + 1
    for _ in range(occurrence):
        at = text.find(part, at + 1) if place > 0 else text.rfind(part, 0, max(at - 1 + len(part), 0))
        if at < 0:
            return 0
    return at + 1


@scalar("REPLACE", "STRING, STRING, STRING -> STRING")
def replaced(text: str, old: str, new: str) -> str:
    """The text with every occurrence of one part replaced by another."""
    return text.replace(old, new)


def _padded(value: str | bytes, size: int, pad: str | bytes, *, left: bool) -> object:
    if size < 0 or not pad:
        return None
    check_size("a pad", size)
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
    if not separator:
        return list(value) if isinstance(value, str) else [bytes((each,)) for each in value]
    return value.split(separator)  # type: ignore[arg-type]


@scalar("SPLIT_TO_MAP", "STRING, STRING, STRING -> MAP<STRING, STRING>")
def split_to_map(text: str, between: str, within: str) -> dict[str, str] | None:
    """Entries of a text as a map: `between` stands between two, `within` between a key and its value."""
    if not between or not within:
        return None
    pairs = (entry.split(within) for entry in text.split(between) if within in entry)
    return {pair[0]: pair[1] for pair in pairs}


@scalar("CHR", "INTEGER -> STRING")
def character(code: int) -> str | None:
    """The character of a code point."""
    return chr(code) if 0 <= code <= 0x10FFFF else None


@scalar("CHR", "STRING -> STRING")
def character_of_text(code: str) -> str | None:
    r"""The character that `\uXXXX` names, or two of them for a pair."""
    if not re.fullmatch(r"(\\u[0-9A-Fa-f]{4}){1,2}", code):
        return None
    units = b"".join(int(each, 16).to_bytes(2, "big") for each in re.findall(r"[0-9A-Fa-f]{4}", code))
    return units.decode("utf-16-be", "replace")


@scalar("MD5", "STRING -> STRING")
def md5(text: str) -> str:
    """The MD5 of a text's UTF-8, in hexadecimal."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


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
    return tuple(None if each is None else each[:1] for each in given) if given else _MASKS


def _count(count: int | None) -> int:
    if count is None or count < 0:
        raise EvaluationError(
            f"function MASK requires a non-negative number of characters to mask or keep; got {count}"
        )
    return count


_FOUR = "STRING, STRING, STRING, STRING"


@scalar("MASK", "STRING -> STRING", f"STRING, {_FOUR} -> STRING", nulls=True)
def mask(text: str | None, *masks: str | None) -> str | None:
    """The text with letters and digits replaced: upper case, lower case, digits, others; null keeps them."""
    return None if text is None else _masked(text, _masks(masks))


@scalar("MASK_LEFT", "STRING, INTEGER -> STRING", f"STRING, INTEGER, {_FOUR} -> STRING", nulls=True)
def mask_left(text: str | None, count: int | None, *masks: str | None) -> str | None:
    """The text with so many characters at its beginning replaced."""
    size = _count(count)
    return None if text is None else _masked(text[:size], _masks(masks)) + text[size:]


@scalar("MASK_RIGHT", "STRING, INTEGER -> STRING", f"STRING, INTEGER, {_FOUR} -> STRING", nulls=True)
def mask_right(text: str | None, count: int | None, *masks: str | None) -> str | None:
    """The text with so many characters at its end replaced."""
    if text is None:
        return None
    at = max(len(text) - _count(count), 0)
    return text[:at] + _masked(text[at:], _masks(masks))


@scalar("MASK_KEEP_LEFT", "STRING, INTEGER -> STRING", f"STRING, INTEGER, {_FOUR} -> STRING", nulls=True)
def mask_keep_left(text: str | None, count: int | None, *masks: str | None) -> str | None:
    """The text with all replaced but so many characters at its beginning."""
    size = _count(count)
    return None if text is None else text[:size] + _masked(text[size:], _masks(masks))


@scalar("MASK_KEEP_RIGHT", "STRING, INTEGER -> STRING", f"STRING, INTEGER, {_FOUR} -> STRING", nulls=True)
def mask_keep_right(text: str | None, count: int | None, *masks: str | None) -> str | None:
    """The text with all replaced but so many characters at its end."""
    if text is None:
        return None
    at = max(len(text) - _count(count), 0)
    return _masked(text[:at], _masks(masks)) + text[at:]


# -- regular expressions


@scalar("REGEXP_EXTRACT", "STRING, STRING -> STRING")
def extracted(pattern: str, text: str) -> str | None:
    """The first part of a text that matches a pattern."""
    return extracted_group(pattern, text, 0)


@scalar("REGEXP_EXTRACT", "STRING, STRING, INTEGER -> STRING")
def extracted_group(pattern: str, text: str, group: int) -> str | None:
    """A group of the first part of a text that matches a pattern."""
    found = java_pattern(pattern).search(text)
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
