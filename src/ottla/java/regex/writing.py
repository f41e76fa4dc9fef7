"""Writes a pattern's tree for an engine: RE2, or the backtracking one.

What RE2 has not is `$` before a line terminator at the end. Where nothing of the pattern follows, the terminator is written
out behind an empty group, a mark, and the match ends at the mark.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.java.regex import characters as c
from ottla.java.regex.errors import PatternError
from ottla.java.regex.nodes import (
    Alternatives,
    Atomic,
    Characters,
    Group,
    Look,
    Node,
    Place,
    Places,
    Reference,
    Repetition,
    Sequence,
    Way,
)

__all__ = ["Linear", "NotLinearError", "backtracking", "has_last", "size"]

SIZE_MAX = 100_000
"""Of what may be repeated, written out."""
RANGES_MAX = 50_000
_RE2_COUNT_MAX = 1000
_TERMINATOR = r"(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])"
_UNIX = {Place.LAST: _TERMINATOR, Place.LAST_UNIX: r"\n"}


class NotLinearError(Exception):
    """RE2 has no counterpart; the text names the construct."""


def size(node: Node) -> int:
    """Return how many characters a pattern has with its repetitions written out, and no more than one above the limit."""
    match node:
        case Sequence(items) | Alternatives(items):
            found = sum(map(size, items)) + 1
        case Group(inner) | Look(inner) | Atomic(inner):
            found = size(inner) + 1
        case Repetition(inner, least, most):
            found = size(inner) * max(1, least + (most is None), most or 0)
        case _:
            found = 1
    return min(found, SIZE_MAX + 1)


def has_last(node: Node) -> bool:
    """Return whether a pattern asks for the end or what stands before the last line terminator."""
    match node:
        case Sequence(items) | Alternatives(items):
            return any(map(has_last, items))
        case Group(inner) | Look(inner) | Atomic(inner) | Repetition(inner):
            return has_last(inner)
        case Places(place):
            return place in _UNIX
        case _:
            return False


@dataclass(slots=True)
class Linear:
    """Writes for RE2. `whole`: for a match of a whole text, in which `$` at the end is the end."""

    whole: bool
    numbers: dict[int, int] = field(default_factory=lambda: {0: 0})
    """Java's numbers of groups → RE2's."""
    marks: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    """Each mark's number, and the groups (of Java's numbers) that it ends if it is there."""
    within_characters: bool = False
    """Whether RE2 may find a place within a character's bytes: `\\B` is one of bytes to it."""
    _count: int = 0
    _ranges: int = 0
    _open: list[int] = field(default_factory=list)

    def write(self, node: Node) -> str:
        """Return the text; raises NotLinearError."""
        return self._write(node, True, 1)

    def _write(self, node: Node, last: bool, times: int) -> str:
        match node:
            case Characters(ranges):
                self._ranges += len(ranges)
                return _checked(self._ranges, _class(ranges, "\\x{{{:x}}}"))
            case Sequence(items):
                return "".join(self._write(each, last and each is items[-1], times) for each in items)
            case Alternatives(branches):
                return f"(?:{'|'.join(self._write(each, last, times) for each in branches)})"
            case Group(inner, number):
                if number in self.numbers:
                    raise NotLinearError("a group in a repetition of more than a thousand")
                self._count += 1
                self.numbers[number] = self._count
                self._open.append(number)
                found = self._write(inner, last, times)
                self._open.pop()
                return f"({found})"
            case Repetition():
                return self._repetition(node, last, times)
            case Places(place, unicode):
                return self._place(place, last, unicode)
            case Look(_, ahead):
                raise NotLinearError(f"look-{'ahead' if ahead else 'behind'}")
            case Atomic():
                raise NotLinearError("an atomic group, (?>")
            case Reference():
                raise NotLinearError("a reference back to a group")

    def _repetition(self, node: Repetition, last: bool, times: int) -> str:
        if node.way is Way.POSSESSIVE:
            raise NotLinearError("a possessive repetition")
        least, most, way = node.least, node.most, node.way.value
        step = max(1, _RE2_COUNT_MAX // times)
        if (least, most) == (0, 1):
            return f"(?:{self._write(node.inner, last, times)})?{way}"
        if max(least, most or 0) <= step:
            inner = self._write(node.inner, False, times * max(1, least, most or 0))
            return f"(?:{inner}){{{least},{'' if most is None else most}}}{way}"
        inner = self._write(node.inner, False, times * step)
        if any(each in self.numbers for each in _groups(node.inner)):
            raise NotLinearError("a group in a repetition of more than a thousand")
        parts = [f"(?:{inner}){{{each}}}" for each in _steps(least, step)]
        if most is None:
            parts.append(f"(?:{inner})*{way}")
        else:
            parts += [f"(?:{inner}){{0,{each}}}{way}" for each in _steps(most - least, step)]
        return _checked(sum(map(len, parts)) // 20, f"(?:{''.join(parts)})")

    def _place(self, place: Place, last: bool, unicode: bool) -> str:
        if place in _UNIX:
            if not last:
                raise NotLinearError("`$` or \\Z before something else")
            if self.whole:
                return r"\z"
            self._count += 1
            self.marks.append((self._count, tuple(self._open)))
            return f"(){_UNIX[place]}?\\z"
        known = {Place.BEGIN: r"\A", Place.END: r"\z"} | ({} if unicode else {Place.WORD: r"\b", Place.NO_WORD: r"\B"})
        if place not in known:
            raise NotLinearError("a boundary of Unicode's words" if unicode else "the begin or end of a line, (?m)")
        self.within_characters |= place is Place.NO_WORD
        return known[place]


def _groups(node: Node) -> list[int]:
    match node:
        case Sequence(items) | Alternatives(items):
            return [number for each in items for number in _groups(each)]
        case Group(inner, number):
            return [number, *_groups(inner)]
        case Look(inner) | Atomic(inner) | Repetition(inner):
            return _groups(inner)
        case _:
            return []


def _steps(count: int, step: int) -> list[int]:
    return [step] * (count // step) + [count % step] * (count % step > 0)


def _checked(count: int, text: str) -> str:
    if count > RANGES_MAX:
        raise PatternError("The pattern is too large: its classes and repetitions have to become fewer")
    return text


_CHARACTER = "\\U{:08x}"
_LINE = {
    Place.BEGIN: r"\A",
    Place.END: r"\Z",
    Place.LAST: r"(?=(?:\r\n|(?<!\r)\n|[\r\u0085\u2028\u2029])?\Z)",
    Place.LAST_UNIX: r"(?=\n?\Z)",
    Place.LINE_BEGIN: r"(?:(?:\A|(?<=\n|\r(?!\n)|[\u0085\u2028\u2029]))(?!\Z))",
    Place.LINE_BEGIN_UNIX: r"(?:(?:\A|(?<=\n))(?!\Z))",
    Place.LINE_END: r"(?:(?=\r|(?<!\r)\n|[\u0085\u2028\u2029]|\Z))",
    Place.LINE_END_UNIX: r"(?=\n|\Z)",
}


def backtracking(node: Node) -> str:
    """Return a pattern for the module `regex`, which backtracks."""
    count = [0]

    def write(node: Node) -> str:
        match node:
            case Characters(ranges):
                count[0] += len(ranges)
                return _checked(count[0], _class(ranges, _CHARACTER))
            case Sequence(items):
                return "".join(map(write, items))
            case Alternatives(branches):
                return f"(?:{'|'.join(map(write, branches))})"
            case Group(inner):
                return f"({write(inner)})"
            case Repetition(inner, least, most, way):
                return f"(?:{write(inner)}){{{least},{'' if most is None else most}}}{way.value}"
            case Look(inner, ahead, negative):
                return f"(?{'' if ahead else '<'}{'!' if negative else '='}{write(inner)})"
            case Atomic(inner):
                return f"(?>{write(inner)})"
            case Reference(number, folds):
                return f"(?i:\\g<{number}>)" if folds else f"\\g<{number}>"
            case Places(place, unicode):
                return _words(place, unicode) if place in (Place.WORD, Place.NO_WORD) else _LINE[place]

    return write(node)


def _words(place: Place, unicode: bool) -> str:
    word = _class(c.unicode_short("w") if unicode else c.SHORT["w"], _CHARACTER)
    if place is Place.WORD:
        return f"(?:(?<={word})(?!{word})|(?<!{word})(?={word}))"
    return f"(?:(?<={word})(?={word})|(?<!{word})(?!{word}))"


def _class(ranges: c.Ranges, code: str) -> str:
    if not ranges:
        return f"[^{code.format(0)}-{code.format(c.ALL - 1)}]"
    parts = [code.format(low) if low == high else f"{code.format(low)}-{code.format(high)}" for low, high in ranges]
    is_single = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
    return parts[0] if is_single else f"[{''.join(parts)}]"
