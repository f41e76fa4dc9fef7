"""`ottla plan`: what the console's actions would change, and by the hash of what was shown, the change itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ottla.base import OttlaError
from ottla.cli.options import Options, UsageError, check_required, open_client, output_option, properties_file
from ottla.cli.output import print_json

if TYPE_CHECKING:
    from ottla.admin import Fixing
    from ottla.admin.actions import ActionPlan

__all__ = ["main", "options"]


def main(argv: list[str]) -> int:
    """Show a plan, or run it; returns the exit code, 3 where the cluster has changed since it was shown."""
    args = options().parse(argv)
    check_required(args, "bootstrap-server")
    from ottla.admin import Worker
    from ottla.admin.actions import Reach, plan_action

    arguments = _arguments(args.arguments)
    workers = dict(each.partition("=")[::2] for each in args.connect)
    with open_client(args.bootstrap_server, properties_file(args.command_config)) as client:
        reach = Reach(
            client,
            {name: Worker(url) for name, url in workers.items()},
            Worker(args.schema_registry, what="schema registry") if args.schema_registry else None,
            fix=_fix,
        )
        plan = plan_action(reach, args.action, arguments)
        if args.run is None:
            _show(plan, args.output)
            return 0
        if plan.hash != args.run:
            print(f"Nothing was done: the plan is another one by now, {plan.hash}", file=sys.stderr)
            return 3
        if plan.typed is not None and plan.typed != args.typed:
            raise OttlaError(f"This cannot be taken back: --typed {plan.typed} says that it is meant")
        plan.run(reach)
    print("done")
    return 0


def _fix(words: str) -> Fixing:
    from ottla.console import Fix

    return Fix(words)


def options() -> Options:
    """Return the parser."""
    parser = Options("plan", "Show what an action would change, as the console does; run it by its hash.")
    parser.connection()
    parser.add_argument("action", metavar="ACTION", help="such as reset-offsets or create-acls")
    parser.add_argument(
        "arguments", nargs="*", metavar="NAME=VALUE", help="values are JSON, or texts where they are none"
    )
    parser.add_argument("--run", metavar="HASH", help="do what the plan with this hash says")
    parser.add_argument("--typed", metavar="NAME", help="with --run: the name of what is lost for ever")
    parser.add_argument(
        "--connect", action="append", default=[], metavar="NAME=URL", help="Connect's workers; repeatable"
    )
    parser.add_argument("--schema-registry", metavar="URL", help="where the schema registry answers")
    output_option(parser)
    return parser


def _arguments(given: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not equals or not name:
            raise UsageError(f"NAME=VALUE is expected, not {each}")
        try:
            found[name] = json.loads(text)
        except (ValueError, RecursionError):
            found[name] = text
    return found


def _show(plan: ActionPlan, form: str) -> None:
    if form != "text":
        print_json(plan.shown())
        return
    for each in plan.differences:
        print(f"{each.path}: {_word(each.before)} -> {_word(each.after)}")
    if not plan.differences:
        print("nothing would change")
    for said in plan.effects:
        print(said)
    for said in plan.warnings:
        print(f"Mind: {said}")
    typed = "" if plan.typed is None else f" --typed {plan.typed}"
    print(f"--run {plan.hash}{typed}")


def _word(value: object) -> str:
    return "-" if value is None else str(value)
