"""Write `docs/doors.md`: who may ask what of which service, from the services' own declarations."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from doors import Doors, services
from generated_page import write_or_check

from ottla.http import FORM
from ottla.service import Endpoint

PAGE = Path(__file__).resolve().parent.parent / "docs" / "doors.md"

HEAD = """# Doors: who may ask what over HTTP

Written from the services' declarations by `tools/gen_doors_docs.py`. The server checks them before it calls a handler.
[security.md](security.md#services-over-http) says which settings open what.

*Who*: **anyone** needs no login even where there are logins; **logged in** needs one where the service has logins, and
none else; **signed** is another instance, by its signature; **session** has logged in to the console. *Right* is what a
user needs beside that. Not in that column: lists show only what the user may see; the registry asks for `GLOBAL_…` where a
name means a context or everything; and behind the console's addresses
[the user's own rights](console.md#who-may-use-it) decide. *May cost* is the size of a body, and the time until an answer
begins; ✎ marks what changes anything.
"""
WHO = {"ANYONE": "anyone", "LOGGED_IN": "logged in", "SIGNED": "signed", "SESSION": "session"}


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB" if count >= 1 << 10 else f"{count} B"


def _listens(default: str) -> str:
    return f"Listens on {default} unless a setting says otherwise." if default else "Listens where a setting says so."


def _row(each: Endpoint[object], doors: Doors) -> str:
    limits = each.limits or doors.dialect.limits
    takes = each.takes or doors.dialect.content_types
    own = "" if each.method == "GET" or takes == doors.dialect.content_types else ", ".join(takes)
    cost = f"{limits.seconds:g} s" if each.method == "GET" else f"{_size(limits.body_bytes)}, {limits.seconds:g} s"
    path = each.path.replace("|", "\\|")
    cells = (f"`{each.method} {path}`{' ✎' if each.changes else ''}", WHO[each.who.name], each.right, own, cost)
    return f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")


def main(argv: list[str]) -> int:
    """Write the page; with `--check` only say whether it is current."""

    async def found() -> list[Doors]:
        listed: list[Doors] = services()
        return listed

    lines = [HEAD]
    for doors in asyncio.run(found()):
        types = ", ".join(
            "`curl -d`'s form (from no browser)" if each == FORM else f"`{each}`"
            for each in doors.dialect.content_types
        )
        lines += [
            f"## {doors.name}\n",
            f"{_listens(doors.default)} Bodies: {types}.\n",
        ]
        lines += ["| method and path | who | right | body types of its own | may cost |", "|---|---|---|---|---|"]
        lines += [_row(each, doors) for each in doors.endpoints if "/contexts/{prefix_context}" not in each.path]
        lines += [_row(each, doors).replace("`GET ", "`WebSocket ") for each in doors.sockets]
        if any("/contexts/{prefix_context}" in each.path for each in doors.endpoints):
            lines.append(
                "\nAll but `/contexts`, `/v1` and what watches is there below `/contexts/.NAME`, too, with the same rights."
            )
        lines.append("")
    code: int = write_or_check(PAGE, "\n".join(lines).rstrip("\n") + "\n", argv)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
