"""XA transactions that are prepared when a connector begins: no snapshot has their rows, and they may be committed."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ottla.connect import ConnectError
from ottla.connectors.cdc.mysql.positions import Position, Start
from ottla.connectors.cdc.mysql.prepared import Unsettled, xid_of
from ottla.connectors.cdc.mysql.server import Server
from ottla.connectors.cdc.replication import ServerAwayError

__all__ = ["names_of_prepared", "prepared_before"]

log = logging.getLogger(__name__)
FETCH: Final = 1000
FILES_MAX: Final = 200
"""So many of the binlog's files are looked at, the newest: a gigabyte each, where the server has its default."""
_BEGIN: Final = re.compile(r"(XA\s+(?:START|BEGIN)\s+.*?)(?:\s+GTID\s+(\S+))?$", re.I | re.S)
_NEXT: Final = re.compile(r"GTID_NEXT\s*=\s*'([^']*)'", re.I)


def names_of_prepared(server: Server) -> set[str]:
    """Return the names of all transactions that are prepared; none, and a line in the log, where that may not be asked."""
    try:
        rows = server.rows("xa recover")
    except ServerAwayError:
        raise
    except ConnectError as error:
        log.warning("Whether XA transactions are prepared cannot be asked (grant XA_RECOVER_ADMIN): %s", error)
        return set()
    found = set()
    for format_, length, _, data in rows:
        name = data if isinstance(data, bytes) else str(data).encode("latin-1", "replace")
        global_, branch = name[: int(length)], name[int(length) :]
        found.add(f"x'{global_.hex()}',x'{branch.hex()}',{int(format_)}")
    return found


def prepared_before(server: Server, names: set[str], position: Position) -> Mapping[str, Unsettled]:
    """Return where those transactions begin that were prepared before a position: the last file is looked at first."""
    found: dict[str, Unsettled] = {}
    for file in server.files()[: -FILES_MAX - 1 : -1]:
        if names <= set(found):
            break
        if not position.reaches(Start(file, 0)):
            continue
        in_file = {xid: each for xid, each in _begun_in(server, file) if xid in names and position.reaches(each.start)}
        found = {**in_file, **found}
    for missing in sorted(names - set(found)):
        log.warning(
            "XA transaction %s is prepared, and where it begins is not found in the binlog: once it is committed, what it "
            "has changed is not told",
            missing,
        )
    return found


def _begun_in(server: Server, file: str) -> Iterator[tuple[str, Unsettled]]:
    """Yield the XA transactions that begin in a file, each with its name."""
    before: Sequence[Any] = ()
    for rows in server.stream(f"show binlog events in '{file}'", FETCH):
        for row in rows:
            if (begin := _BEGIN.search(str(row[5]))) is not None and str(row[2]).lower() in ("gtid", "query"):
                is_own, gtid = begin[2] is not None, begin[2] or ""
                if not is_own and before and (next_ := _NEXT.search(str(before[5]))) is not None:
                    gtid = next_[1] if ":" in next_[1] else ""
                place = row if is_own or not before else before
                yield (
                    xid_of(begin[1]),
                    Unsettled(Start(file, int(place[1])), gtid.lower() if ":" in gtid else gtid, file),
                )
            before = row
