"""The links of this user's consoles: each opens one session, so the newest one is kept where `ottla console link` finds it.

A link stands in a file of its console, in a folder that only this user may enter, for as long as the console runs.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

__all__ = ["kept_links", "links_folder", "newest_link"]

ANSWER_SECONDS_MAX = 1.0


def links_folder() -> Path:
    """Return the folder of the links; it need not be there. Raises OSError for a user without a home."""
    try:
        home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    except RuntimeError as error:  # as in a container that runs as a user whom the system does not know
        raise OSError(str(error)) from error
    return Path(home) / "ottla" / "consoles"


@contextmanager
def kept_links() -> Iterator[Callable[[str], None]]:
    """Yield what keeps the newest link of this process's console; it is forgotten at the block's end.

    Where the folder cannot be written, nothing is kept: whoever sees what the console prints needs no file.
    """
    name = f"{os.getpid()}.link"

    def keep(link: str) -> None:
        with suppress(OSError):
            path = links_folder() / name
            path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
            new = path.with_suffix(".new")
            new.touch(mode=0o600)
            new.write_text(link)
            new.replace(path)

    try:
        yield keep
    finally:
        with suppress(OSError):
            (links_folder() / name).unlink(missing_ok=True)


def newest_link(address: str | None = None) -> str | None:
    """Return the newest link of a console that answers, of the one at HOST:PORT where one is named; None without one."""
    for link in _links():
        try:
            place = urlsplit(link)
            host, port = place.hostname or "", place.port or 0
        except ValueError:  # a file that was cut
            continue
        if (address is None or _plain(address) == _plain(place.netloc)) and _answers(host, port):
            return link
    return None


def _links() -> list[str]:
    """Return what is in the files of links, the newest first. Those of consoles that were killed are there, too."""
    found: list[tuple[float, str]] = []
    with suppress(OSError):
        for path in links_folder().glob("*.link"):
            with suppress(OSError, UnicodeDecodeError):
                found.append((path.stat().st_mtime, path.read_text()))
    return [link for _, link in sorted(found, reverse=True)]


def _plain(address: str) -> str:
    return address.replace("localhost:", "127.0.0.1:")


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), ANSWER_SECONDS_MAX).close()
    except OSError:
        return False
    return True
