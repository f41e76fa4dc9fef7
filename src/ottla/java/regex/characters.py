"""Sets of characters, as ranges of code points, and the names that Java has for some of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import lru_cache

__all__ = [
    "ALL",
    "ANY",
    "ANY_IN_LINE",
    "ANY_IN_UNIX_LINE",
    "SHORT",
    "Ranges",
    "both",
    "cases",
    "folded",
    "merged",
    "named",
    "ranges",
    "single",
    "unicode_short",
    "without",
]

ALL = 0x110000
"""How many code points there are."""
Ranges = tuple[tuple[int, int], ...]
"""Characters as ranges of code points, both ends in them, ordered and apart."""
ANY: Ranges = ((0, ALL - 1),)


def merged(found: Iterable[tuple[int, int]]) -> Ranges:
    """Return ranges in order, those that touch as one."""
    made: list[tuple[int, int]] = []
    for low, high in sorted(found):
        if made and low <= made[-1][1] + 1:
            made[-1] = made[-1][0], max(made[-1][1], high)
        else:
            made.append((low, high))
    return tuple(made)


def ranges(text: str) -> Ranges:
    """Return the ranges of a text of triples such as `a-z`."""
    return merged((ord(text[at]), ord(text[at + 2])) for at in range(0, len(text), 3))


def single(character: str) -> Ranges:
    """Return the set of one character."""
    return ((ord(character), ord(character)),)


def without(found: Ranges) -> Ranges:
    """Return all other characters."""
    made, at = [], 0
    for low, high in found:
        if at < low:
            made.append((at, low - 1))
        at = high + 1
    if at < ALL:
        made.append((at, ALL - 1))
    return tuple(made)


def both(one: Ranges, other: Ranges) -> Ranges:
    """Return the characters of both sets."""
    return without(merged([*without(one), *without(other)]))


def folded(found: Ranges) -> Ranges:
    """Return a set with the other case of its ASCII letters."""
    more = list(found)
    for begin, shift in ((ord("A"), 32), (ord("a"), -32)):
        for low, high in found:
            low, high = max(low, begin), min(high, begin + 25)
            if low <= high:
                more.append((low + shift, high + shift))
    return merged(more)


def cases(found: Ranges) -> Ranges:
    """Return a set with all other cases that Unicode has of its characters, one by one."""
    if found == ANY:
        return found
    codes, others = _cased()
    more = list(found)
    for low, high in found:
        for at in range(bisect_left(codes, low), bisect_right(codes, high)):
            more += others[at]
    return merged(more)


@lru_cache(1)
def _cased() -> tuple[list[int], list[Ranges]]:
    """Return the characters that have other cases, and those: as in Java, all whose upper case has one lower case."""
    same: dict[int, list[int]] = {}
    for code in range(_CASED_END):
        each = chr(code)
        upper = next((word for word in (each.upper(), each.title()) if len(word) == 1), each)
        same.setdefault(ord(upper.lower()[0]), []).append(code)
    found = {code: codes for codes in same.values() if len(codes) > 1 for code in codes}
    ordered = sorted(found)
    return ordered, [tuple((other, other) for other in found[code] if other != code) for code in ordered]


_CASED_END = 0x1E944
"""Behind the last letter that has another case."""


_DIGIT, _WORD = ranges("0-9"), ranges("0-9A-Z_-_a-z")
_SPACE, _BLANK = ranges("\t-\r - "), ranges("\t-\t - ")
_HORIZONTAL = ranges(
    "\t-\t - \u00a0-\u00a0\u1680-\u1680\u180e-\u180e\u2000-\u200a\u202f-\u202f\u205f-\u205f\u3000-\u3000"
)
_VERTICAL = ranges("\n-\r\u0085-\u0085\u2028-\u2029")
ANY_IN_LINE = without(ranges("\n-\n\r-\r\u0085-\u0085\u2028-\u2029"))
"""What a dot stands for."""
ANY_IN_UNIX_LINE = without(single("\n"))
SHORT: dict[str, Ranges] = {"d": _DIGIT, "w": _WORD, "s": _SPACE, "h": _HORIZONTAL, "v": _VERTICAL}
_UNICODE_SHORT = {"d": r"\p{Nd}", "w": r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u200c\u200d]", "s": r"\p{White_Space}"}
"""With the flag `U`, as classes of the module that knows Unicode's properties."""
_POSIX: dict[str, Ranges] = {
    "Lower": ranges("a-z"),
    "Upper": ranges("A-Z"),
    "ASCII": ranges("\0-\x7f"),
    "Alpha": ranges("A-Za-z"),
    "Digit": _DIGIT,
    "Alnum": ranges("0-9A-Za-z"),
    "Punct": ranges("!-/:-@[-`{-~"),
    "Graph": ranges("!-~"),
    "Print": ranges(" -~"),
    "Blank": _BLANK,
    "Cntrl": ranges("\0-\x1f\x7f-\x7f"),
    "XDigit": ranges("0-9A-Fa-f"),
    "Space": _SPACE,
}
_MAJOR = {"C": "cfnos", "L": "lmotu", "M": "cen", "N": "dlo", "P": "cdefios", "S": "ckmo", "Z": "lps"}
_CATEGORIES = frozenset([*_MAJOR, *(major + each for major, minors in _MAJOR.items() for each in minors)])
_BINARY = {
    "alphabetic": r"\p{Alphabetic}",
    "ideographic": r"\p{Ideographic}",
    "letter": r"\p{L}",
    "lowercase": r"\p{Lowercase}",
    "uppercase": r"\p{Uppercase}",
    "titlecase": r"\p{Lt}",
    "punctuation": r"\p{P}",
    "control": r"\p{Cc}",
    "white_space": r"\p{White_Space}",
    "whitespace": r"\p{White_Space}",
    "digit": r"\p{Nd}",
    "alnum": r"[\p{Alphabetic}\p{Nd}]",
    "hex_digit": r"[\p{Nd}\p{Hex_Digit}]",
    "hexdigit": r"[\p{Nd}\p{Hex_Digit}]",
    "noncharacter_code_point": r"\p{Noncharacter_Code_Point}",
    "noncharactercodepoint": r"\p{Noncharacter_Code_Point}",
    "join_control": r"\p{Join_Control}",
    "joincontrol": r"\p{Join_Control}",
    "assigned": r"\P{Cn}",
}
_OTHER = {
    "LC": r"[\p{Lu}\p{Ll}\p{Lt}]",
    "LD": r"[\p{L}\p{Nd}]",
    "L1": "[\0-\xff]",
    "all": r"[\s\S]",
    "javaLowerCase": r"\p{Lowercase}",
    "javaUpperCase": r"\p{Uppercase}",
    "javaAlphabetic": r"\p{Alphabetic}",
    "javaIdeographic": r"\p{Ideographic}",
    "javaTitleCase": r"\p{Lt}",
    "javaDigit": r"\p{Nd}",
    "javaDefined": r"\P{Cn}",
    "javaLetter": r"\p{L}",
    "javaLetterOrDigit": r"[\p{L}\p{Nd}]",
    "javaSpaceChar": r"\p{Z}",
    "javaWhitespace": r"[\t-\r\x1c-\x1f\u0020\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000]",
    "javaISOControl": r"[\0-\x1f\x7f-\x9f]",
}
_CASES = {"Lower", "Upper", "Ll", "Lu", "Lt", "javaLowerCase", "javaUpperCase", "javaTitleCase"}
_CASES_BINARY = {"lowercase", "uppercase", "titlecase"}


def named(name: str, *, folds: bool, unicode: bool) -> Ranges | None:
    """Return the characters of a property; None for one that Java has not, or that is not known here.

    `folds`: without regard to case, a property of one case stands for all three. `unicode`: POSIX' names are Unicode's.
    """
    if unicode and name.lower() in {each.lower() for each in _POSIX}:
        return _found(_POSIX_UNICODE.get(name.lower(), ""))
    if name in _POSIX:
        return _POSIX["Alpha"] if folds and name in _CASES else _POSIX[name]
    is_plain = name.isascii() and all(each.isalnum() or each in "_-= " for each in name)
    rule = _rule(name, folds=folds) if is_plain else None
    return None if rule is None else _found(rule)


_POSIX_UNICODE = {
    "lower": r"\p{Lowercase}",
    "upper": r"\p{Uppercase}",
    "ascii": "[\0-\x7f]",
    "alpha": r"\p{Alphabetic}",
    "digit": r"\p{Nd}",
    "alnum": r"[\p{Alphabetic}\p{Nd}]",
    "punct": r"\p{P}",
    "graph": r"[^\p{White_Space}\p{Cc}\p{Cs}\p{Cn}]",
    "print": r"[^\t-\r\u0085\u2028\u2029\p{Cc}\p{Cs}\p{Cn}]",
    "blank": r"[\t\p{Zs}]",
    "cntrl": r"\p{Cc}",
    "xdigit": r"[\p{Nd}\p{Hex_Digit}]",
    "space": r"\p{White_Space}",
}


def _rule(name: str, *, folds: bool) -> str | None:
    """Return a property as a class of the module that knows Unicode's."""
    kind, equals, value = name.partition("=")
    if equals:
        prefix = {"sc": "Script", "script": "Script", "blk": "Block", "block": "Block"}.get(kind.lower())
        if kind.lower() in ("gc", "general_category"):
            return _category(value, folds=folds)
        return None if prefix is None else f"\\p{{{prefix}={value}}}"
    if name in _OTHER:
        return r"[\p{Lu}\p{Ll}\p{Lt}\p{Lowercase}\p{Uppercase}]" if folds and name in _CASES else _OTHER[name]
    if name.startswith("In"):
        return f"\\p{{Block={name[2:]}}}"
    if name.startswith("Is"):
        lower = name[2:].lower()
        if lower in _BINARY:
            return r"[\p{Lowercase}\p{Uppercase}\p{Lt}]" if folds and lower in _CASES_BINARY else _BINARY[lower]
        return _category(name[2:], folds=folds) or f"\\p{{Script={name[2:]}}}"
    return _category(name, folds=folds)


def _category(name: str, *, folds: bool) -> str | None:
    if name not in _CATEGORIES:
        return None
    return r"[\p{Lu}\p{Ll}\p{Lt}]" if folds and name in _CASES else f"\\p{{{name}}}"


_SPANS = (
    (0, 0x33480, True),
    (0x33480, 0xE0000, False),
    (0xE0000, 0xE0200, True),
    (0xE0200, 0xF0000, False),
    (0xF0000, 0x100000, False),
    (0x100000, ALL, False),
)
"""Where Unicode has characters, each is asked for; of a span without any, or of private ones, the first stands for all."""


@lru_cache(1)
def _sample() -> tuple[str, list[int]]:
    """Return one character for each step of the code points, and where each step begins."""
    begins = [at for low, high, each in _SPANS for at in (range(low, high) if each else (low,))]
    return "".join(map(chr, begins)), [*begins, ALL]


@lru_cache(1024)
def _found(rule: str) -> Ranges | None:
    import regex

    try:
        known = regex.compile(f"(?:{rule})+", regex.V0)
    except regex.error:
        return None
    text, begins = _sample()
    return merged((begins[each.start()], begins[each.end()] - 1) for each in known.finditer(text)) or None


def unicode_short(letter: str) -> Ranges:
    """Return what `\\d`, `\\w` and `\\s` stand for with the flag `U`."""
    found = _found(_UNICODE_SHORT[letter])
    assert found is not None
    return found
