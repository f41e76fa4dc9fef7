"""`ottla streams promote`: have a Streams application go on in micro-batches, or continuous, where it has stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cli.options import Options
from ottla.cli.streams_app import application_options, load, settings_of

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["promote", "promote_options"]


def promote_options() -> Options:
    """Return the parser."""
    parser = Options(
        "streams promote",
        "Have an application that is stopped go on in the other mode of execution, over its offsets and changelogs.",
    )
    application_options(parser)
    add = parser.add_argument
    add("--to", required=True, choices=["continuous", "micro-batch"], help="the mode to go on in")
    add("--dry-run", action="store_true", help="say whether it may, and change nothing")
    return parser


def promote(args: Namespace) -> int:
    """Promote an application and say where it goes on."""
    loaded = load(args.app)
    settings = settings_of(args, loaded.settings)
    from ottla.spark import promote as promoted

    found = promoted(loaded.topology(settings), settings, args.to, dry_run=args.dry_run)
    verb = "may go on" if args.dry_run else "goes on"
    print(f"application {found.application} {verb} in mode {found.after}, and was in mode {found.before}:")
    for place, offset in sorted(found.offsets.items()):
        print(f"  {place} from offset {offset}")
    if not args.dry_run:
        print(f"start it with execution={found.after} or auto")
    return 0
