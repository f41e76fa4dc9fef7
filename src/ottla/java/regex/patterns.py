"""Patterns that are ready to match: RE2 runs them, or an engine that backtracks, with a limit of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import re2

from ottla.java.regex.errors import PatternCostError, PatternError
from ottla.java.regex.nodes import Node
from ottla.java.regex.reading import read
from ottla.java.regex.stopwatch import Stopwatch
from ottla.java.regex.writing import SIZE_MAX, Linear, NotLinearError, backtracking, has_last, size

__all__ = ["PATTERN_CHARS_MAX", "Found", "JavaPattern", "compile_java"]

PATTERN_CHARS_MAX = 32_768
"""Characters of a pattern: a list of a thousand topics fits."""
MEMORY_MAX = 2 << 20
"""Bytes of a pattern that RE2 has compiled, with what it keeps while it matches."""
STEPS_MAX = 1 << 28
"""A pattern's characters times a text's bytes: RE2 takes about a second for so many in the worst case."""
MATCH_SECONDS_MAX = 0.25
"""For one match by trying."""
OVERRUNS_MAX = 3
"""After so many matches that took too long, a pattern is given up."""
FINDS_SECONDS_MAX = 2.0
"""For all matches in one text."""
_KEPT = 128
Spans = list[tuple[int, int]]


class Found:
    """A match: groups by numbers or names, None for a group that has none."""

    __slots__ = ("_spans", "re", "string")

    def __init__(self, pattern: JavaPattern, text: str, spans: Spans) -> None:
        self.re = pattern
        self.string = text
        self._spans = spans

    def span(self, group: int | str = 0) -> tuple[int, int]:
        """Return where a group begins and ends; raises IndexError for one that there is not."""
        number = self.re.groupindex.get(group, -1) if isinstance(group, str) else group
        if not 0 <= number < len(self._spans):
            raise IndexError(f"No group {group}")
        return self._spans[number]

    def start(self, group: int | str = 0) -> int:
        """Return where a group begins, -1 for one that has no text."""
        return self.span(group)[0]

    def end(self, group: int | str = 0) -> int:
        """Return where a group ends."""
        return self.span(group)[1]

    def __getitem__(self, group: int | str) -> str | None:
        begin, end = self.span(group)
        return None if begin < 0 else self.string[begin:end]

    group = __getitem__

    def groups(self) -> tuple[str | None, ...]:
        """Return the texts of all groups."""
        return tuple(self[each] for each in range(1, len(self._spans)))


class JavaPattern:
    """A pattern of java.util.regex. `compile_java` makes it."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > PATTERN_CHARS_MAX:
            raise PatternError(f"A pattern has at most {PATTERN_CHARS_MAX} characters, and this one has {len(pattern)}")
        found = read(pattern)
        self.pattern = pattern
        self.groups = found.groups
        self.groupindex: Mapping[str, int] = found.names
        self.not_linear: str | None = None
        """Which construct only trying can match; None for a pattern that runs in linear time."""
        self._node = found.node
        self._size = size(found.node)
        if self._size > SIZE_MAX:
            raise PatternError(f"The pattern repeats too much: written out it has more than {SIZE_MAX} characters")
        self._overruns = 0
        self._tried: Any = None
        self._whole: tuple[Any, Linear] | None = None
        self._search: tuple[Any, Linear] | None = None
        try:
            self._search = _linear(self._node, whole=False)
            self._whole = _linear(self._node, whole=True) if has_last(self._node) else self._search
        except NotLinearError as construct:
            self.not_linear = str(construct)
            self._search = None
            self._tried = self._by_trying()

    def __reduce__(self) -> tuple[Any, ...]:
        return compile_java, (self.pattern,)

    def __repr__(self) -> str:
        return f"compile_java({self.pattern!r})"

    def fullmatch(self, text: str) -> Found | None:
        """Match a whole text, as `Matcher.matches` does; raises PatternCostError."""
        if self._whole is None:
            return self._try("fullmatch", text, 0)
        return self._run(self._whole, "fullmatch", text, _Encoded(text), 0)

    def match(self, text: str) -> Found | None:
        """Match at a text's begin, as `Matcher.lookingAt` does; raises PatternCostError."""
        if self._search is None:
            return self._try("match", text, 0)
        return self._run(self._search, "match", text, _Encoded(text), 0)

    def search(self, text: str, at: int = 0) -> Found | None:
        """Find the first match from a place on; raises PatternCostError."""
        if self._search is None:
            return self._try("search", text, at)
        return self._run(self._search, "search", text, _Encoded(text), at)

    def finditer(self, text: str) -> Iterator[Found]:
        """Find all matches, as `Matcher.find` does: after an empty one it goes on a character further.

        Raises PatternCostError.
        """
        encoded = _Encoded(text) if self._search is not None else None
        watch = Stopwatch(FINDS_SECONDS_MAX)
        at = 0
        while at <= len(text):
            if encoded is None or self._search is None:
                found = self._try("search", text, at)
            else:
                found = self._run(self._search, "search", text, encoded, at)
            if found is None:
                return
            yield found
            at = found.end() + (found.end() == found.start())
            if watch.is_over:
                raise PatternCostError(
                    f"{self._shown} takes more than {FINDS_SECONDS_MAX:g} s to find all its matches in a text of "
                    f"{len(text)} characters"
                )

    def sub(self, make: Callable[[Found], str], text: str) -> str:
        """Return a text with each match replaced by what is made of it; raises PatternCostError."""
        parts, at = [], 0
        for each in self.finditer(text):
            parts += [text[at : each.start()], make(each)]
            at = each.end()
        return "".join([*parts, text[at:]])

    @property
    def _shown(self) -> str:
        return f"The pattern {self.pattern[:200]!r}"

    def _run(self, form: tuple[Any, Linear], way: str, text: str, encoded: _Encoded, at: int) -> Found | None:
        compiled, written = form
        data = encoded.data
        if written.within_characters and not encoded.is_ascii:
            return self._try(way, text, at)
        if self._size * len(data) > STEPS_MAX:
            raise PatternCostError(
                f"{self._shown} has {self._size} characters with its repetitions written out, too many for a text of "
                f"{len(data)} bytes: at most {STEPS_MAX} of one times the other"
            )
        found = getattr(compiled, way)(data, encoded.byte_of(at))
        if found is None:
            return None
        spans = [found.span(written.numbers[each]) for each in range(self.groups + 1)]
        for mark, ended in written.marks:
            end = found.end(mark)
            if end < 0:
                continue
            if data[end:] == b"\n" and data[end - 1 : end] == b"\r":
                return self._try(way, text, at)  # no end of a line stands between these two
            for each in (0, *ended):
                spans[each] = spans[each][0], end
        return Found(self, text, encoded.decoded(spans))

    def _by_trying(self) -> Any:
        import regex

        try:
            return regex.compile(backtracking(self._node), regex.V0)
        except (regex.error, RecursionError, OverflowError, MemoryError) as error:
            raise PatternError(f"{self._shown} cannot be run here: {error}") from None

    def _try(self, way: str, text: str, at: int) -> Found | None:
        if self._overruns >= OVERRUNS_MAX:
            raise PatternCostError(f"{self._shown} is given up: {self._slow} took too long {OVERRUNS_MAX} times")
        if self._tried is None:
            self._tried = self._by_trying()
        try:
            found = getattr(self._tried, way)(text, at, timeout=MATCH_SECONDS_MAX)
        except TimeoutError:
            self._overruns += 1
            raise PatternCostError(
                f"{self._shown} takes more than {MATCH_SECONDS_MAX:g} s for a text of {len(text)} characters: {self._slow}"
            ) from None
        except MemoryError:
            raise PatternCostError(
                f"{self._shown} takes too much memory for a text of {len(text)} characters"
            ) from None
        return None if found is None else Found(self, text, [found.span(each) for each in range(self.groups + 1)])

    @property
    def _slow(self) -> str:
        construct = self.not_linear or "\\B in a text beyond ASCII, or `$` at the end of a line"
        return f"{construct} is matched by trying, which"


def _linear(node: Node, *, whole: bool) -> tuple[Any, Linear]:
    written = Linear(whole)
    text = written.write(node)
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_MAX
    try:
        return re2.compile(text.encode(), options), written
    except re2.error as error:
        reason = error.args[0] if error.args else b""
        words = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise PatternError(f"The pattern is too large: {words[:200]}") from None


class _Encoded:
    """A text as bytes, with the places of each in the other. Places are asked for from left to right."""

    __slots__ = ("_byte", "_character", "_text", "data", "is_ascii")

    def __init__(self, text: str) -> None:
        self._text = text
        self.is_ascii = text.isascii()
        self.data = text.encode("utf-8", "surrogatepass")
        self._byte = self._character = 0

    def byte_of(self, character: int) -> int:
        """Return where a character begins."""
        if self.is_ascii:
            return min(character, len(self.data))
        if character < self._character:
            self._byte = self._character = 0
        between = self._text[self._character : character]
        self._byte += len(between.encode("utf-8", "surrogatepass"))
        self._character = character
        return self._byte

    def decoded(self, spans: Spans) -> Spans:
        """Return spans of bytes as spans of characters."""
        if self.is_ascii:
            return spans
        byte, character = self._byte, self._character
        places = {-1: -1}
        for each in sorted({place for span in spans for place in span if place >= 0}):
            if each < byte:
                byte = character = 0
            character += len(self.data[byte:each].decode("utf-8", "surrogatepass"))
            byte = each
            places[each] = character
        self._byte, self._character = spans[0][1], places[spans[0][1]]
        return [(places[begin], places[end]) for begin, end in spans]


@lru_cache(_KEPT)
def compile_java(pattern: str) -> JavaPattern:
    """Return a pattern; raises PatternError for what is none, and for what cannot be run here.

    Its kept object is shared: how often it took too long is counted for all who use it.
    """
    try:
        return JavaPattern(pattern)
    except RecursionError:
        raise PatternError(f"The stack is too small here for the pattern {pattern[:200]!r}") from None
