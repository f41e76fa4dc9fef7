"""`ottla streams promote`: have a Streams application go on in the other mode, while it runs or where it has stopped."""

from __future__ import annotations

import base64
import getpass
import http.client
import json
import os
import ssl
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from ottla.base import OttlaError, why_unreached
from ottla.cli.options import Options, UsageError
from ottla.cli.streams_app import application_options, load, settings_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

__all__ = ["promote", "promote_options"]

SECONDS_MAX = 330.0
"""How long one that runs may take: it gives up itself after 300."""
PASSWORD = "OTTLA_STREAMS_PASSWORD"


class PromoteError(OttlaError):
    """An application that runs was not promoted."""


def promote_options() -> Options:
    """Return the parser."""
    parser = Options(
        "streams promote",
        "Have an application go on in the other mode of execution, over its offsets and changelogs.",
    )
    application_options(parser)
    add = parser.add_argument
    add("--to", required=True, choices=["continuous", "micro-batch"], help="the mode to go on in")
    add("--dry-run", action="store_true", help="say whether it may, and change nothing")
    add(
        "--url",
        metavar="URL",
        help="the HTTP address of one that runs (http.listener); without it, it has to be stopped",
    )
    add("-u", "--user", metavar="NAME", help=f"who asks there; the password is ${PASSWORD}, or asked for")
    add("--cacert", metavar="FILE", help="certificates (PEM) to check https://… against (default: the system's)")
    return parser


def promote(args: Namespace) -> int:
    """Promote an application and say where it goes on."""
    if args.url is not None:
        found = _asked(args, {"to": args.to, "dry_run": args.dry_run})
        _say(args, str(found.get("before")), dict(found.get("offsets", {})))
        return 0
    if args.user is not None or args.cacert is not None:
        raise UsageError("--user and --cacert are for an application that runs: say its --url")
    loaded = load(args.app)
    settings = settings_of(args, loaded.settings)
    from ottla.spark import promote as promoted

    done = promoted(loaded.topology(settings), settings, args.to, dry_run=args.dry_run)
    _say(args, done.before, {str(place): int(offset) for place, offset in sorted(done.offsets.items())})
    return 0


def _say(args: Namespace, before: str, offsets: Mapping[str, int]) -> None:
    verb = "may go on" if args.dry_run else "goes on"
    print(f"{args.app} {verb} in mode {args.to}, and was in mode {before}")
    for place, offset in offsets.items():
        print(f"  {place} from offset {offset}")
    if not args.dry_run:
        print(f"start it from now on with execution={args.to} or auto")


def _asked(args: Namespace, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ask the application at `--url`; raises PromoteError in its words."""
    from ottla.client import bounded, web_answer

    headers = {"Content-Type": "application/json"}
    if args.user is not None:
        password = os.environ.get(PASSWORD) or getpass.getpass("Password: ")
        headers["Authorization"] = f"Basic {base64.b64encode(f'{args.user}:{password}'.encode()).decode()}"
    url = args.url.rstrip("/") + "/promote"
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"--url {args.url}: http://… or https://… is expected")
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")
    try:
        context = ssl.create_default_context(cafile=args.cacert) if url.startswith("https:") else None
        with web_answer(request, answer_s=SECONDS_MAX, total_s=SECONDS_MAX, context=context) as answer:
            found: Mapping[str, Any] = json.loads(bounded(answer))
            return found
    except urllib.error.HTTPError as error:
        raise PromoteError(_words(error)) from None
    except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
        raise PromoteError(
            f"the application at {args.url} does not answer: {why_unreached(error)}; is it running, with `--http`?"
        ) from None


def _words(error: urllib.error.HTTPError) -> str:
    from ottla.client import bounded

    try:
        return str(json.loads(bounded(error))["message"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return f"the application answers {error.code} {error.reason}"
