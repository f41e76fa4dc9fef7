"""`ottla security init|certificate`: a small authority, certificates and properties to try security with."""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.actions import parse_action
from ottla.cli.options import Options, UsageError, whole_number

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["main", "parsers"]

FOLDER = "ottla-security"
DAYS = 365
DAYS_MAX = 36_500


def main(argv: list[str]) -> int:
    """Run one action."""
    action, args = parse_action("security", _parsers(), argv)
    if not 1 <= args.days <= DAYS_MAX:
        raise UsageError(f"--days {args.days}: a certificate is good for one day at least, and {DAYS_MAX} at most")
    return init(args) if action == "init" else certificate(args)


def parsers() -> list[Options]:
    """Return every action's parser, for completion and for the reference page."""
    return list(_parsers().values())


def _parsers() -> dict[str, Options]:
    init = Options(
        "security init",
        "Make an authority, certificates for a broker and its administrator, and their properties files.",
    )
    issue = Options("security certificate", "Make one more certificate, for another broker or a client.")
    issue.add_argument("name", metavar="NAME", help="who it is for: with this folder's server.properties, User:NAME")
    for each in (init, issue):
        each.add_argument("--folder", metavar="FOLDER", default=FOLDER, help=f"where the files are ({FOLDER})")
        each.add_argument(
            "--days", type=whole_number, metavar="N", default=DAYS, help=f"how long certificates are good ({DAYS})"
        )
    reached = "a name or address by which clients reach the broker; repeatable, the first one is told to clients"
    init.add_argument("--host", action="append", default=[], metavar="HOST", help=f"{reached} (localhost)")
    issue.add_argument(
        "--host", action="append", default=[], metavar="HOST", help="for a broker: where it is reached; repeatable"
    )
    return {"init": init, "certificate": issue}


def init(args: Namespace) -> int:
    """Make all that a first secured broker needs, and say what comes next."""
    from ottla.cli.local.security_folder import SecurityFolder

    hosts = args.host or ["localhost", "127.0.0.1", "::1", socket.gethostname()]
    folder = SecurityFolder(Path(args.folder))
    folder.write_new(list(dict.fromkeys(hosts)), now=datetime.now(UTC), days=args.days)
    path, host = args.folder, hosts[0]
    print(f"""\
Made {path}: whoever has authority.key can be anybody here, so keep it for yourself.

  ottla server start {path}/server.properties
  ottla topics --create --topic first --bootstrap-server {host}:9093 --command-config {path}/admin.properties

Certificates are good for {args.days} days. More of them: ottla security certificate NAME --folder {path}""")
    return 0


def certificate(args: Namespace) -> int:
    """Make one more certificate."""
    from ottla.cli.local.security_folder import SecurityFolder

    made = SecurityFolder(Path(args.folder)).issue(args.name, args.host, now=datetime.now(UTC), days=args.days)
    print("Made " + " and ".join(str(each) for each in made))
    return 0
