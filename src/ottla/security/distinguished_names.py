"""The name in a certificate as Java writes it (RFC 2253), which is what ACLs and mapping rules of Kafka's users hold.

Leaf first, no blanks, short names for nine attributes; any other one by number with its value in hexadecimal DER.
"""

from __future__ import annotations

from ottla.security.der import OBJECT_IDENTIFIER, SEQUENCE, SET, DerError, elements, identifier, inside

__all__ = ["name_text"]

_SHORT = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_TEXTS = {12: "utf-8", 19: "ascii", 20: "latin-1", 22: "ascii", 28: "utf-32-be", 30: "utf-16-be"}
"""Tags of the texts that are written as they are: UTF8, Printable, Teletex, IA5, Universal and BMP."""
_ESCAPED = frozenset(',+<>#;"\\=')


def name_text(name: bytes) -> str:
    """Return a name (X.501, in DER) in Java's writing; raises DerError."""
    parts = [_one(content) for tag, content, _ in elements(inside(name, SEQUENCE)) if _is(tag, SET)]
    return ",".join(reversed(parts))


def _is(tag: int, expected: int) -> bool:
    if tag != expected:
        raise DerError("not a name")
    return True


def _one(attributes: bytes) -> str:
    """Return a relative name: usually one attribute, or several with `+` between."""
    return "+".join(_attribute(content) for tag, content, _ in elements(attributes) if _is(tag, SEQUENCE))


def _attribute(content: bytes) -> str:
    parts = list(elements(content))
    if len(parts) != 2 or parts[0][0] != OBJECT_IDENTIFIER:
        raise DerError("not a name")
    number = identifier(parts[0][1])
    tag, value, whole = parts[1]
    encoding = _TEXTS.get(tag)
    short = _SHORT.get(number)
    if short is None or encoding is None:
        return f"{short or number}=#{whole.hex()}"
    try:
        return f"{short}={_escaped(value.decode(encoding))}"
    except UnicodeDecodeError as error:
        raise DerError("not a name: a text in another encoding than it says") from error


def _escaped(text: str) -> str:
    kept = "".join(f"\\{each}" if each in _ESCAPED else each for each in text)
    start = len(kept) - len(kept.lstrip(" "))
    end = len(kept) - len(kept.rstrip(" ")) if start < len(kept) else 0
    return "\\ " * start + kept[start : len(kept) - end] + "\\ " * end
