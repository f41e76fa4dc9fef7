"""Numbers that keys and values hold as bytes: `%v{big64}`, and kcat's letters for several fields, `%v{unpack[>iq$]}`.

========  =======================================================
letter    means
========  =======================================================
`<` `>`   little or big endian from here on; big without either
b h i q   a signed number of 8, 16, 32, 64 bits
B H I Q   the same, unsigned
c         one character
s         all that is left, as text
$         nothing may be left; without it what is left is passed over
blank     a blank is printed
========  =======================================================
"""

from __future__ import annotations

import re

__all__ = ["UNPACK", "packed", "unpack_letters", "unpacked"]

UNPACK = re.compile(r"unpack\[([^\]]*)\]")
ENDING = re.compile(r"[^s$]*s?\$?")
SIZES = {"b": 1, "h": 2, "i": 4, "q": 8}
LETTERS = frozenset("<>bBhHiIqQcs$ ")


def unpack_letters(modifier: str | None) -> str | None:
    """Return the letters of `unpack[…]`, or None for another modifier; raises ValueError for letters that are none."""
    found = UNPACK.fullmatch(modifier or "")
    if found is None:
        return None
    strange = sorted(set(found[1]) - LETTERS)
    if strange or not found[1]:
        raise ValueError(
            f"{strange[0] if strange else 'nothing'} is no letter of unpack; < > b B h H i I q Q c s $ are"
        )
    if not ENDING.fullmatch(found[1]):
        raise ValueError("s and $ end the letters of unpack")
    return found[1]


def unpacked(data: bytes, letters: str) -> str:
    """Return the fields as text; raises ValueError where the bytes do not fit them."""
    found, at, order = [], 0, "big"
    for letter in letters:
        if letter in "<>":
            order = "big" if letter == ">" else "little"
        elif letter == " ":
            found.append(" ")
        elif letter == "$":
            if at < len(data):
                raise ValueError(f"{len(data) - at} of {len(data)} bytes are left behind {letters}")
        elif letter == "s":
            found.append(data[at:].decode(errors="replace"))
            at = len(data)
        else:
            size = SIZES.get(letter.lower(), 1)
            field = data[at : at + size]
            if len(field) < size:
                raise ValueError(f"{len(data)} bytes are too few for {letters}")
            at += size
            found.append(field.decode("latin-1") if letter == "c" else _text(field, order, signed=letter.islower()))
    return "".join(found)


def _text(field: bytes, order: str, *, signed: bool) -> str:
    return str(int.from_bytes(field, "big" if order == "big" else "little", signed=signed))


def packed(text: bytes, order: str, size: int) -> bytes:
    """Return a signed number's bytes; raises ValueError for a text that is no such number."""
    try:
        return int(text).to_bytes(size, "big" if order == "big" else "little", signed=True)
    except OverflowError:
        raise ValueError(f"{text.decode()} does not fit into {size} bytes") from None
