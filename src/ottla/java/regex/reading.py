"""Reads java.util.regex's syntax. Named groups may also be written as RE2 and Python write them: `(?P<name>…)`.

What Java refuses is refused. `\\G` and `\\X` are refused too: no engine here has their meaning.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.java.regex import characters as c
from ottla.java.regex.characters import Ranges
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

__all__ = ["Read", "read"]

DEPTH_MAX = 100
"""Of groups and classes in each other."""
RANGES_MAX = 50_000
"""Of characters, in all classes."""
PROPERTIES_MAX = 32
"""Different names of properties in one pattern: each that is new costs milliseconds."""
_COUNT_MAX = 2**31 - 1
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_DIGITS = "0123456789"
_PLACES = {"b": Place.WORD, "B": Place.NO_WORD, "A": Place.BEGIN, "z": Place.END}
_EMPTY = Sequence(())
_NOTHING = Characters(())


@dataclass(frozen=True, slots=True)
class Read:
    """What a pattern says, how many groups it has, and which of them have names."""

    node: Node
    groups: int
    names: dict[str, int]


def read(text: str) -> Read:
    """Read a pattern; raises PatternError."""
    reader = _Reader(text)
    node = reader.whole()
    return Read(node, reader.groups, dict(reader.names))


@dataclass(slots=True)
class _Reader:
    text: str
    at: int = 0
    groups: int = 0
    depth: int = 0
    flags: frozenset[str] = frozenset()
    names: dict[str, int] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)
    """Groups that have ended, so that what they matched can be referred to."""
    ranges: int = 0
    properties: set[str] = field(default_factory=set)

    def refuse(self, why: str) -> PatternError:
        return PatternError(f"{why} near index {self.at} of {self.text[:200]}")

    # -- characters of the text

    def peek(self, more: int = 0) -> str:
        place = self.at + more
        return self.text[place] if place < len(self.text) else ""

    def take(self, wrong: str = "The pattern ends too early") -> str:
        if self.at >= len(self.text):
            raise self.refuse(wrong)
        self.at += 1
        return self.text[self.at - 1]

    def skip(self, begin: str) -> bool:
        """Pass over a text if it stands here."""
        found = self.text.startswith(begin, self.at)
        self.at += len(begin) * found
        return found

    def until(self, end: str, wrong: str) -> str:
        found = self.text.find(end, self.at)
        if found < 0:
            raise self.refuse(wrong)
        word, self.at = self.text[self.at : found], found + len(end)
        return word

    def blank(self) -> None:
        """Pass over blanks and comments, where the flag `x` has them."""
        if "x" not in self.flags:
            return
        while (each := self.peek()) and (each in " \t\n\x0b\f\r" or each == "#"):
            self.at += 1
            if each == "#":
                while self.peek() and self.take() not in "\n\r\u0085\u2028\u2029":
                    pass

    def nest(self, deeper: int) -> None:
        self.depth += deeper
        if self.depth > DEPTH_MAX:
            raise self.refuse(f"More than {DEPTH_MAX} groups or classes stand in each other")

    # -- alternatives, and what they are made of

    def whole(self) -> Node:
        found = self.alternatives()
        if self.peek() == ")":
            raise self.refuse("Unmatched closing ')'")
        return found

    def alternatives(self) -> Node:
        branches = [self.sequence()]
        while self.skip("|"):
            branches.append(self.sequence())
        return branches[0] if len(branches) == 1 else Alternatives(tuple(branches))

    def sequence(self) -> Node:
        items: list[Node] = []
        while True:
            self.blank()
            each = self.peek()
            if each in ("", "|", ")"):
                return items[0] if len(items) == 1 else Sequence(tuple(items))
            if each in "*+?":
                raise self.refuse(f"Dangling meta character '{each}'")
            if each == "{" and self.at == 0:
                raise self.refuse("Illegal repetition")
            if each == "{":  # Java takes it for a repetition of nothing
                self.count()
            else:
                items += self.repeated(self.piece())

    def repeated(self, inner: Node) -> list[Node]:
        self.blank()
        signs = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        found = signs.get(self.peek())
        if found is not None:
            self.at += 1
        elif self.peek() == "{":
            found = self.count()
        if found is None:
            return [inner]
        self.blank()
        way = Way(self.take()) if self.peek() in ("?", "+") else Way.GREEDY
        return [Repetition(inner, *found, way)]

    def count(self) -> tuple[int, int | None]:
        """Return the bounds of a repetition in braces."""
        self.at += 1
        least = self.number()
        most: int | None = least
        if self.skip(","):
            most = None if self.peek() == "}" else self.number()
        if not self.skip("}"):
            raise self.refuse("Unclosed counted closure")
        if most is not None and most < least:
            raise self.refuse("Illegal repetition range")
        return least, most

    def number(self) -> int:
        begin = self.at
        while self.peek() and self.peek() in _DIGITS:
            self.at += 1
        word = self.text[begin : self.at]
        if not word:
            raise self.refuse("Illegal repetition")
        if len(word) > 10 or int(word) > _COUNT_MAX:
            raise self.refuse("Illegal repetition range")
        return int(word)

    def piece(self) -> Node:
        each = self.take()
        if each == "\\":
            return self.escape()
        if each == "[":
            return Characters(self.class_())
        if each == "(":
            return self.open()
        if each == "^":
            return Places(self.line(Place.LINE_BEGIN, Place.LINE_BEGIN_UNIX) if "m" in self.flags else Place.BEGIN)
        if each == "$":
            if "m" in self.flags:
                return Places(self.line(Place.LINE_END, Place.LINE_END_UNIX))
            return Places(self.line(Place.LAST, Place.LAST_UNIX))
        if each == ".":
            in_line = c.ANY_IN_UNIX_LINE if "d" in self.flags else c.ANY_IN_LINE
            return Characters(c.ANY if "s" in self.flags else in_line)
        return self.literal(each)

    def line(self, plain: Place, unix: Place) -> Place:
        return unix if "d" in self.flags else plain

    def literal(self, each: str) -> Node:
        return Characters(self.cased(c.single(each)))

    def cased(self, found: Ranges) -> Ranges:
        """Return characters as the flags `i` and `u` widen them."""
        if "i" not in self.flags:
            return found
        return c.cases(found) if "u" in self.flags or "U" in self.flags else c.folded(found)

    # -- groups

    def open(self) -> Node:
        kept = self.flags
        if self.peek() != "?":
            return self.group(kept, "")
        self.at += 1
        if self.peek() == "<" and self.peek(1) not in ("=", "!"):
            self.at += 1
            return self.group(kept, self.name(">"))
        if self.skip("P<"):
            return self.group(kept, self.name(">"))
        for begin, ahead, negative in (
            *(("=", True, False), ("!", True, True)),
            *(("<=", False, False), ("<!", False, True)),
        ):
            if self.skip(begin):
                return Look(self.inside(kept), ahead, negative)
        if self.skip(">"):
            return Atomic(self.inside(kept))
        if self.skip(":"):
            return self.inside(kept)
        return self.flagged(kept)

    def group(self, kept: frozenset[str], name: str) -> Node:
        self.groups += 1
        number = self.groups
        if name:
            if name in self.names:
                raise self.refuse(f"Named capturing group <{name}> is already defined")
            self.names[name] = number
        found = self.inside(kept)
        self.closed.add(number)
        return Group(found, number)

    def inside(self, kept: frozenset[str]) -> Node:
        """Read what stands in a group, to its end; flags that change in it hold until there."""
        self.nest(1)
        found = self.alternatives()
        if not self.skip(")"):
            raise self.refuse("Unclosed group")
        self.nest(-1)
        self.flags = kept
        return found

    def name(self, end: str) -> str:
        found = self.until(end, "A group's name has no end")
        if (
            not (found.isascii() and found.isalnum() and found[0].isalpha())
            and not found.replace("_", "a").isidentifier()
        ):
            raise self.refuse("A group's name is made of Latin letters and digits, and begins with a letter")
        return found

    def flagged(self, kept: frozenset[str]) -> Node:
        flags, on = set(self.flags), True
        while (each := self.take("Unknown inline modifier")) not in (":", ")"):
            if each == "-" and on:
                on = False
            elif each in "idmsuxU":
                (flags.add if on else flags.discard)(each)
            else:
                raise self.refuse("Unknown inline modifier")
        self.flags = frozenset(flags)
        return self.inside(kept) if each == ":" else _EMPTY

    # -- escapes

    def escape(self) -> Node:
        each = self.take()
        unicode = "U" in self.flags
        if each == "Q":
            end = self.text.find("\\E", self.at)
            quoted = self.text[self.at :] if end < 0 else self.text[self.at : end]
            self.at = len(self.text) if end < 0 else end + 2
            return self.quoted(quoted)
        if each in _PLACES:
            return Places(_PLACES[each], unicode and each in "bB")
        if each == "Z":
            return Places(self.line(Place.LAST, Place.LAST_UNIX))
        if each == "R":
            pair = Sequence((Characters(c.single("\r")), Characters(c.single("\n"))))
            return Alternatives((pair, Characters(c.SHORT["v"])))
        if each == "k" and self.skip("<"):
            name = self.name(">")
            if name not in self.names:
                raise self.refuse(f"named capturing group <{name}> does not exist")
            return self.reference(self.names[name])
        if each in "123456789":
            number = int(each)
            while self.peek() and self.peek() in _DIGITS and number * 10 + int(self.peek()) <= self.groups:
                number = number * 10 + int(self.take())
            return self.reference(number)
        if each in "GX":
            raise self.refuse(f"\\{each} is not known here")
        self.at -= 2
        return Characters(self.member())

    def quoted(self, text: str) -> Node:
        """Return a text as it is; what repeats it repeats its last character, so that it is read one by one."""
        if not text:
            return _EMPTY
        first, last = text[:-1], text[-1]
        if not first:
            return self.literal(last)
        items = [*map(self.literal, first), *self.repeated(self.literal(last))]
        return Sequence(tuple(items))

    def reference(self, number: int) -> Node:
        return Reference(number, "i" in self.flags) if number in self.closed else _NOTHING

    def member(self) -> Ranges:
        """Read what stands in a class, or alone: a character, an escape of one, or of many."""
        each = self.take("Unclosed character class")
        if each != "\\":
            return self.cased(c.single(each))
        each = self.take("Unclosed character class")
        if each.lower() in c.SHORT:
            wide = "U" in self.flags and each.lower() in "dws"
            found = c.unicode_short(each.lower()) if wide else c.SHORT[each.lower()]
            return found if each.islower() else c.without(found)
        if each in "pP":
            found = self.property()
            return found if each == "p" else c.without(found)
        code = self.code(each)
        return self.cased(((code, code),))

    def property(self) -> Ranges:
        name = self.take()
        if name == "{":
            name = self.until("}", "Unclosed character family")
        self.properties.add(name)
        if len(self.properties) > PROPERTIES_MAX:
            raise self.refuse(f"There are more than {PROPERTIES_MAX} names of properties")
        found = c.named(name, folds="i" in self.flags, unicode="U" in self.flags)
        if found is None:
            raise self.refuse(f"Unknown character property name {{{name[:100]}}}")
        return found

    def code(self, each: str) -> int:
        if each in _ESCAPES:
            return ord(_ESCAPES[each])
        if each == "x" and self.skip("{"):
            return self.hexadecimal(self.until("}", "Unclosed hexadecimal escape sequence"))
        if each == "x":
            return self.hexadecimal(self.digits(2))
        if each == "u":
            high = self.hexadecimal(self.digits(4))
            if 0xD800 <= high < 0xDC00 and self.text.startswith("\\u", self.at):
                low = self.low_half()
                if low:
                    return 0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF)
            return high
        if each == "0":
            found = ""
            while (
                len(found) < 3 and self.peek() and self.peek() in "01234567" and (len(found) < 2 or found[0] in "0123")
            ):
                found += self.take()
            if not found:
                raise self.refuse("Illegal octal escape sequence")
            return int(found, 8)
        if each == "N" and self.skip("{"):
            return self.character_named(self.until("}", "Unclosed character name escape sequence"))
        if each == "c":
            return ord(self.take("Illegal control escape sequence")) ^ 64
        if each.isascii() and each.isalnum():
            raise self.refuse("Illegal/unsupported escape sequence")
        return ord(each)

    def character_named(self, name: str) -> int:
        import unicodedata

        try:
            return ord(unicodedata.lookup(name))
        except (KeyError, TypeError):  # none of this name, or a sequence of several
            raise self.refuse(f"Unknown character name [{name[:100]}]") from None

    def low_half(self) -> int:
        """Read the second half of a character that is written as two, or return 0."""
        word = self.text[self.at + 2 : self.at + 6]
        if len(word) < 4 or any(each not in "0123456789abcdefABCDEF" for each in word):
            return 0
        found = int(word, 16)
        if not 0xDC00 <= found < 0xE000:
            return 0
        self.at += 6
        return found

    def digits(self, count: int) -> str:
        word, self.at = self.text[self.at : self.at + count], min(self.at + count, len(self.text))
        return word if len(word) == count else ""

    def hexadecimal(self, word: str) -> int:
        if not word or any(each not in "0123456789abcdefABCDEF" for each in word):
            raise self.refuse("Illegal hexadecimal escape sequence")
        found = int(word, 16) if len(word) < 32 else c.ALL
        if found >= c.ALL:
            raise self.refuse("Hexadecimal codepoint is too big")
        return found

    # -- classes

    def class_(self) -> Ranges:
        """Read a class behind its bracket; `&&` are the characters that both sides have."""
        self.nest(1)
        negated = self.skip("^")
        whole: Ranges | None = None
        part: list[tuple[int, int]] = []
        empty = True
        while True:
            self.blank()
            if self.peek() == "]" and not empty:
                self.at += 1
                break
            if not self.peek():
                raise self.refuse("Unclosed character class")
            if self.skip("&&"):
                side, part = c.merged(part), []
                whole = side if whole is None else (c.both(whole, side) if side else whole)
                continue
            part += self.element()
            empty = False
        self.nest(-1)
        side = c.merged(part)
        self.ranges += len(side)
        if self.ranges > RANGES_MAX:
            raise self.refuse("The classes have too many characters")
        found = side if not whole else (c.both(whole, side) if side else whole)
        return c.without(found) if negated else found

    def element(self) -> Ranges:
        if self.skip("\\Q"):
            quoted = self.until("\\E", "Unclosed character class")
            return c.merged(pair for each in quoted for pair in self.cased(c.single(each)))
        if self.skip("["):
            return self.class_()
        plain = self.flags
        self.flags = plain - {"i"}  # a range is read as it stands, and is widened as a whole
        begin = self.at
        low = self.member()
        if self.text.startswith(("\\p", "\\P"), begin):
            self.flags, self.at = plain, begin
            return self.member()
        is_single = len(low) == 1 and low[0][0] == low[0][1]
        if is_single and self.peek() == "-" and self.peek(1) not in ("]", "", "["):
            self.at += 1
            high = self.member()
            if len(high) != 1 or high[0][0] != high[0][1] or high[0][0] < low[0][0]:
                raise self.refuse("Illegal character range")
            low = ((low[0][0], high[0][0]),)
        self.flags = plain
        return self.cased(low)
