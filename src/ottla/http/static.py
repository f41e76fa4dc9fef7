"""Files of a page that was built before: served from memory, compressed once, kept by browsers for as long as they like.

A file whose name has a hash in it (`assets/index-1a2b3c4d.js`) never changes, so that browsers need not ask again.
"""

from __future__ import annotations

import gzip
import re
from importlib.resources.abc import Traversable

from ottla.http.guard import Who
from ottla.http.replies import HttpError, Reply
from ottla.http.server import Request, Route

__all__ = ["static_routes"]

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}
HASHED = re.compile(r"-[A-Za-z0-9_-]{8}\.[a-z]+$")
FOR_EVER = "public, max-age=31536000, immutable"
ASK_EACH_TIME = "no-cache"


def static_routes(folder: Traversable, prefix: str = "/") -> list[Route]:
    """Return a route that serves the files of a folder below a path; of kinds that `TYPES` does not know, none.

    All of them are read now, so that no path of a request ever reaches the file system.
    """
    files = {name: _Served(name, data) for name, data in _files(folder, "").items()}

    async def file(request: Request) -> Reply:
        found = files.get(request.match_info["file"])
        if found is None:
            raise HttpError(404, f"Not found: {request.path}")
        return found.reply(takes_gzip="gzip" in request.headers.get("Accept-Encoding", ""))

    return [Route("GET", f"{prefix}{{file:.+}}", file, Who.ANYONE)]


class _Served:
    def __init__(self, name: str, data: bytes) -> None:
        kind = "." + name.rpartition(".")[2]
        self._type = TYPES[kind]
        self._plain = data
        self._packed = gzip.compress(data, 9, mtime=0)
        self._headers = {"Cache-Control": FOR_EVER if HASHED.search(name) else ASK_EACH_TIME, "Vary": "Accept-Encoding"}

    def reply(self, *, takes_gzip: bool) -> Reply:
        if takes_gzip and len(self._packed) < len(self._plain):
            return Reply(self._packed, self._type, headers={**self._headers, "Content-Encoding": "gzip"})
        return Reply(self._plain, self._type, headers=self._headers)


def _files(folder: Traversable, below: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for each in folder.iterdir():
        if each.is_dir():
            found |= _files(each, f"{below}{each.name}/")
        elif "." + each.name.rpartition(".")[2] in TYPES:
            found[f"{below}{each.name}"] = each.read_bytes()
    return found
