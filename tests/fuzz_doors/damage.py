"""Damage to a text, of the seed's choice."""

from __future__ import annotations

from random import Random

__all__ = ["damaged"]

PIECES = (
    *(
        "'",
        "''",
        '"',
        "`",
        "/*",
        "*/",
        "--",
        "\n",
        ";",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "<",
        ">",
        ",",
        "->",
        "=>",
        "${v}",
        "${",
    ),
    *(
        "\0",
        "\ud800",
        "\udfff",
        "\ufeff",
        "\u2028",
        "é",
        "𝄞",
        "9" * 40,
        "1e999999999",
        "-",
        "\\",
        "\\u0000",
        "NULL",
        "CASE",
    ),
    *(
        "SELECT ",
        " FROM ",
        " WHERE ",
        " AS ",
        "STRUCT<",
        "ARRAY[",
        "NOT ",
        "null",
        ":",
        '"type":',
        '"name":',
        "message ",
    ),
)


def damaged(rng: Random, text: str) -> str:
    """Return a text with a few pieces put in, taken out, doubled or moved."""
    for _ in range(1 + rng.randrange(4)):
        at = rng.randrange(len(text) + 1)
        end = min(len(text), at + rng.randrange(1, 30))
        match rng.randrange(5):
            case 0:
                text = text[:at] + rng.choice(PIECES) + text[at:]
            case 1:
                text = text[:at] + text[end:]
            case 2:
                text = text[:end] + text[at:end] * rng.randrange(1, 20) + text[end:]
            case 3:
                text = text[:at] + rng.choice(PIECES) * rng.randrange(1, 50) + text[end:]
            case _:
                text = text[:at]
    return text
