"""Patterns of LIKE and of Java's regular expressions as Python's, as far as the two say the same."""

from __future__ import annotations

import re

from ottla.streams.expressions.kinds import Refused

__all__ = ["java_pattern", "like_pattern"]

_DOT = "[^\n\r\u0085\u2028\u2029]"
_CLASSES = {
    "d": "[0-9]",
    "w": "[a-zA-Z_0-9]",
    "s": "[ \t\n\x0b\f\r]",
    "D": "[^0-9]",
    "W": "[^a-zA-Z_0-9]",
    "S": "[^ \t\n\x0b\f\r]",
}
_INSIDE = {"d": "0-9", "w": "a-zA-Z_0-9", "s": " \t\n\x0b\f\r"}
_TOKEN = re.compile(
    r"\\(?P<escape>.)|\[(?P<class>\^?(?:\\[dws.\-\]\[/]|[A-Za-z0-9_ ,;:=@#%/!<>.+*?$(){}|-])+)\]"
    r"|(?P<many>[*+?]|\{[0-9]{1,3}(?:,[0-9]{0,3})?\})|(?P<open>\((?:\?:)?)|(?P<close>\))|(?P<or>\|)|(?P<dot>\.)|(?P<start>\^)"
    r"|(?P<plain>[A-Za-z0-9 _,;:=@#%&'\"<>~`!/-])"
)


def like_pattern(text: str) -> re.Pattern[str]:
    """Return a LIKE pattern without escapes."""
    if "\\" in text:
        raise Refused(f"like with an escape ({text!r}) is not known here")
    parts = {"%": ".*", "_": "."}
    return re.compile("".join(parts.get(each) or re.escape(each) for each in text), re.DOTALL)


def java_pattern(text: str) -> re.Pattern[str]:
    """Return a regular expression of Java's; raises Refused for what Python may read otherwise.

    Known are plain characters, classes of them, `.`, `^`, groups, alternatives and greedy repetitions.
    """
    made, at, repeatable = [], 0, False
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or (found.lastgroup == "many" and not repeatable):
            raise Refused(f"the regular expression {text!r} is not known here (at {at})")
        made.append(_python(found))
        repeatable = found.lastgroup not in ("many", "open", "or", "start")
        at = found.end()
    try:
        return re.compile("".join(made))
    except re.error as problem:
        raise Refused(f"the regular expression {text!r} is not known here ({problem})") from None


def _python(found: re.Match[str]) -> str:
    kind, said = found.lastgroup, found.group()
    if kind == "escape":
        sign = found["escape"]
        if sign in _CLASSES:
            return _CLASSES[sign]
        if sign.isalnum() or ord(sign) > 126:
            raise Refused(f"\\{sign} in a regular expression is not known here")
        return re.escape(sign)
    if kind == "class":
        inner = re.sub(r"\\([dws])", lambda each: _INSIDE[each[1]], found["class"])
        if "--" in inner or re.search(r"&&|\|\||~~", inner):
            raise Refused(f"the class {said} in a regular expression is not known here")
        return f"[{inner}]"
    if kind == "dot":
        return _DOT
    if kind == "start":
        return r"\A"
    return said
