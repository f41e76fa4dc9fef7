"""Writes `connectors/cdc/mysql/charset_facts.py`: what a MariaDB server says of its character sets, byte for byte.

`python -m tools.ask_charsets` runs it on a private server. The file changes with the server's own tables alone.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql

from ottla.connectors.cdc.mysql.charsets import MULTI_BYTE
from tools.mariadb import PASSWORD, USER, private_server

__all__ = ["characters", "single_byte_sets"]

TARGET = Path(__file__).parents[1] / "src/ottla/connectors/cdc/mysql/charset_facts.py"
UNICODE = ("utf8mb3", "utf8mb4", "ucs2", "utf16", "utf16le", "utf32", "binary")
PIECE = 16
THREE_BYTES = ("ujis", "eucjpms")
HEAD = '''"""Characters of the server's character sets, as it tells them itself. By tools/ask_charsets.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["DIFFERENCES", "HIGH_HALVES", "LOW_HALVES"]

'''


def single_byte_sets(cursor: Any) -> list[str]:
    """Return the names of the sets of one byte a character."""
    cursor.execute("show character set")
    return sorted(row[0] for row in cursor.fetchall() if row[3] == 1 and row[0] not in UNICODE)


def characters(cursor: Any, charset: str, size: int) -> dict[bytes, str]:
    """Return what the server makes of each character of so many bytes; needs a database in use and no strict mode."""
    first, end = (0x8F0000, 0x8FFFFF) if size == 3 else (0, 256**size - 1)
    data = f"convert(unhex(lpad(hex(seq), {2 * size}, '0')) using {charset})"
    cursor.execute(f"select seq, hex({data}), hex(convert({data} using utf32)) from seq_{first}_to_{end}")
    found = {}
    for number, kept, told in cursor.fetchall():
        key = number.to_bytes(size, "big")
        if kept is not None and bytes.fromhex(kept) == key and len(told) == 8:
            found[key] = chr(int(told, 16))
    return found


def _differences(cursor: Any, charset: str) -> dict[bytes, str]:
    codec = MULTI_BYTE[charset][0]
    all_ = {**characters(cursor, charset, 1), **characters(cursor, charset, 2)}
    if charset in THREE_BYTES:
        all_ |= characters(cursor, charset, 3)
    found = {}
    for key, text in all_.items():
        try:
            same = key.decode(codec)
        except UnicodeDecodeError:
            same = "?"
        if same != text:
            found[key] = text
    return found


def _runs(found: dict[bytes, str]) -> Iterator[tuple[str, str]]:
    begin, texts = b"", ""
    for key in sorted(found):
        if begin and key[:-1] == begin[:-1] and key[-1] == begin[-1] + len(texts):
            texts += found[key]
            continue
        if begin:
            yield begin.hex(), texts
        begin, texts = key, found[key]
    if begin:
        yield begin.hex(), texts


def _run(texts: str) -> str:
    first = ord(texts[0])
    if len(texts) > 2 and texts == "".join(map(chr, range(first, first + len(texts)))):
        return f"({first:#x}, {first + len(texts):#x})"
    return _literal(texts)


def _literal(text: str) -> str:
    """A text in pieces that fit into lines."""
    return "(" + " ".join(ascii(text[at : at + PIECE]) for at in range(0, len(text), PIECE)) + ")"


def page(cursor: Any) -> str:
    """Return the module's text."""
    lines = [HEAD, "HIGH_HALVES: Final[Mapping[str, str]] = {\n"]
    low = {}
    for charset in single_byte_sets(cursor):
        found = characters(cursor, charset, 1)
        text = "".join(found.get(bytes([at]), "?") for at in range(256))
        lines.append(f"    {charset!r}: {_literal(text[128:])},\n")
        if text[:128] != "".join(map(chr, range(128))):
            low[charset] = text[:128]
    lines.append('}\n"""Of sets of one byte: the characters of the bytes from 128 on."""\n')
    lines.append("LOW_HALVES: Final[Mapping[str, str]] = {\n")
    lines += [f"    {charset!r}: {_literal(text)},\n" for charset, text in low.items()]
    lines.append('}\n"""Of those that have others than ASCII in front of them."""\n')
    lines.append("DIFFERENCES: Final[Mapping[str, tuple[tuple[str, str | tuple[int, int]], ...]]] = {\n")
    for charset in MULTI_BYTE:
        runs = "".join(f"({begin!r}, {_run(texts)}), " for begin, texts in _runs(_differences(cursor, charset)))
        if runs:
            lines.append(f"    {charset!r}: ({runs}),\n")
    lines.append(
        '}\n"""Where a set differs from Python\'s codec: runs of characters, by their text or from one to another."""\n'
    )
    return "".join(lines)


def main() -> None:
    """Write it."""
    with private_server() as server:
        given = {"host": "127.0.0.1", "port": server.port, "user": USER, "password": PASSWORD}
        with (
            pymysql.connect(**given, charset="utf8mb4", ssl_disabled=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("create database charsets")
            cursor.execute("use charsets")
            cursor.execute("set sql_mode = ''")
            TARGET.write_text(page(cursor))
    subprocess.run([sys.executable, "-m", "ruff", "format", "-q", str(TARGET)], check=True)


if __name__ == "__main__":
    main()
