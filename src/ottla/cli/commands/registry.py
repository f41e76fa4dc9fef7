"""`ottla registry`: run a schema registry, and look at what one holds, check, change and move it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ottla.admin import RestError, Worker
from ottla.cli.actions import parse_action
from ottla.cli.local.log_format import FORMATS, LEVELS
from ottla.cli.options import Options, UsageError, output_option, properties_file, whole_number
from ottla.cli.output import Answer, print_answer

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["main", "parsers"]

NOUN = "registry"
URL_DEFAULT = "http://localhost:8081"
TYPES = {".avsc": "AVRO", ".proto": "PROTOBUF", ".json": "JSON"}
NOT_THERE = (404,)


def main(argv: list[str]) -> int:
    """Run the action that is named."""
    action, args = parse_action(NOUN, {parser.prog.split()[-1]: parser for parser in parsers()}, argv)
    if action == "start":
        return start(args)
    actions: Mapping[str, Callable[[Worker, Namespace], int]] = {
        "subjects": subjects,
        "versions": versions,
        "show": show,
        "register": register,
        "check": check,
        "delete": delete,
        "export": export,
        "import": import_,
    }
    return actions[action](Worker(args.url, properties_file(args.command_config), what="schema registry"), args)


def parsers() -> list[Options]:
    """Return every action's parser."""
    return [
        _start_options(),
        _listing("subjects", "List the subjects, with their latest versions."),
        _versions_options(),
        _show_options(),
        _schema_options("register", "Register a file as a subject's next version; prints its id."),
        _schema_options(
            "check", "Say whether a file may be a subject's next version, and how it differs from the latest."
        ),
        _delete_options(),
        _export_options(),
        _import_options(),
    ]


def _start_options() -> Options:
    parser = Options(f"{NOUN} start", "Run a schema registry, with Confluent's interface; it keeps schemas in a topic.")
    parser.add_argument("properties", nargs="?", metavar="schema-registry.properties", help="Confluent's own file")
    parser.add_argument("--config", metavar="FILE", help="the same file, by name")
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="wins; repeatable")
    parser.add_argument(
        "--bootstrap-server", metavar="HOST:PORT,…", help="the brokers, where no property names them (the context's)"
    )
    parser.add_argument("--context", metavar="NAME", help="the cluster of this name, where no property names brokers")
    parser.add_argument("--ends-with-input", action="store_true", help="stop when standard input ends")
    parser.add_argument(
        "--log-format", choices=FORMATS, default="text", help="of events on standard error: text or json"
    )
    parser.add_argument("--log-level", choices=LEVELS, default="info", help=f"{', '.join(LEVELS)}; info without it")
    return parser


def _options(action: str, words: str) -> Options:
    parser = Options(f"{NOUN} {action}", words)
    url = os.environ.get("OTTLA_REGISTRY_URL", URL_DEFAULT)
    parser.add_argument(
        "--url", default=url, metavar="URL", help=f"the registry's address ($OTTLA_REGISTRY_URL; {URL_DEFAULT})"
    )
    parser.add_argument("--command-config", metavar="FILE", help="properties file with ssl.… for an https:// address")
    return parser


def _listing(action: str, words: str) -> Options:
    parser = _options(action, words)
    parser.add_argument("--deleted", action="store_true", help="those too that are marked as deleted")
    output_option(parser)
    return parser


def _versions_options() -> Options:
    parser = _listing("versions", "List the versions of a subject.")
    parser.add_argument("subject", help="as in `ottla registry subjects`")
    return parser


def _show_options() -> Options:
    parser = _options("show", "Print a schema: of a subject's version, or by its id.")
    parser.add_argument("subject", nargs="?", help="as in `ottla registry subjects`")
    parser.add_argument("version", nargs="?", default="latest", help="a number, or latest")
    parser.add_argument("--id", type=whole_number, metavar="N", help="the schema with this id")
    return parser


def _schema_options(action: str, words: str) -> Options:
    parser = _options(action, words)
    parser.add_argument("subject", help="as in `ottla registry subjects`")
    parser.add_argument("file", help="the schema; - is standard input")
    parser.add_argument(
        "--type", type=str.upper, choices=sorted(TYPES.values()), help="by the file's name where it is not given"
    )
    parser.add_argument(
        *("--reference",),
        action="append",
        default=[],
        metavar="NAME=SUBJECT:VERSION",
        help="what the schema refers to; repeatable",
    )
    return parser


def _delete_options() -> Options:
    parser = _options("delete", "Mark a subject, or one of its versions, as deleted; for good with --permanent.")
    parser.add_argument("subject", help="as in `ottla registry subjects`")
    parser.add_argument("version", nargs="?", help="a number, or latest; all of them without it")
    parser.add_argument("--permanent", action="store_true", help="for good, where it is marked already")
    return parser


def _export_options() -> Options:
    return _options("export", "Print all schemas, configurations and modes as JSON lines, for `import`.")


def _import_options() -> Options:
    parser = _options("import", "Take in what `export` has printed, with its ids and versions.")
    parser.add_argument("file", nargs="?", default="-", help="standard input without it")
    return parser


def start(args: Namespace) -> int:
    """Run an instance until a signal comes; `ready <address>` is printed when it answers."""
    from ottla.cli.local.registry_run import run_registry

    return run_registry(args)


def _path(subject: str, rest: str = "") -> str:
    return f"/subjects/{quote(subject, safe='')}{rest}"


# Looking


def subjects(registry: Worker, args: Namespace) -> int:
    """List subjects."""
    asked = "&deleted=true" if args.deleted else ""
    found = registry.ask("GET", f"/schemas?latestOnly=true{asked}")
    _print(args, found, {"SUBJECT": "subject", "VERSION": "version", "ID": "id", "TYPE": "schemaType"}, "subject")
    return 0


def versions(registry: Worker, args: Namespace) -> int:
    """List a subject's versions."""
    asked = "?deleted=true" if args.deleted else ""
    numbers = registry.ask("GET", _path(args.subject, f"/versions{asked}"))
    found = [registry.ask("GET", _path(args.subject, f"/versions/{each}{asked}")) for each in numbers]
    _print(args, found, {"VERSION": "version", "ID": "id", "TYPE": "schemaType"}, "version")
    return 0


def _print(args: Namespace, found: list[dict[str, Any]], columns: Mapping[str, str], name: str) -> None:
    rows = [{"schemaType": "AVRO", **each} for each in found]
    if args.output == "text":
        for row in rows:
            print("  ".join(str(row[key]) for key in columns.values()))
        return
    print_answer(args.output, Answer(rows, columns, name=name))


def show(registry: Worker, args: Namespace) -> int:
    """Print a schema."""
    if (args.id is None) is (args.subject is None):
        raise UsageError("Either a subject or --id names the schema")
    path = f"/schemas/ids/{args.id}" if args.id is not None else _path(args.subject, f"/versions/{args.version}")
    print(_readable(registry.ask("GET", path)["schema"]))
    return 0


def _readable(text: str) -> str:
    """Return a schema as people read it: JSON over several lines, Protobuf as it is."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text.rstrip("\n")


# Changing


def _body(args: Namespace) -> dict[str, Any]:
    text = sys.stdin.read() if args.file == "-" else Path(args.file).read_text()
    references = []
    for each in args.reference:
        name, _, target = each.partition("=")
        subject, _, version = target.rpartition(":")
        if not (name and subject and version.lstrip("-").isdigit()):
            raise UsageError(f"--reference {each} is not NAME=SUBJECT:VERSION")
        references.append({"name": name, "subject": subject, "version": int(version)})
    kind = args.type or TYPES.get(Path(args.file).suffix, "AVRO")
    return {"schema": text, "schemaType": kind, **({"references": references} if references else {})}


def register(registry: Worker, args: Namespace) -> int:
    """Register a file."""
    print(registry.ask("POST", _path(args.subject, "/versions"), _body(args))["id"])
    return 0


def check(registry: Worker, args: Namespace) -> int:
    """Say whether a file fits, and show how it differs; 1 where it does not fit."""
    import difflib

    body = _body(args)
    path = f"/compatibility/subjects/{quote(args.subject, safe='')}/versions?verbose=true"
    found = registry.ask("POST", path, body)
    try:
        latest = registry.ask("GET", _path(args.subject, "/versions/latest"))
    except RestError as error:
        if error.status not in NOT_THERE:
            raise
        latest = None
    if latest is not None:
        old, new = (_readable(each).splitlines() for each in (latest["schema"], body["schema"]))
        names = (f"{args.subject} version {latest['version']}", args.file)
        for line in difflib.unified_diff(old, new, *names, lineterm=""):
            print(line)
    for message in found.get("messages", []):
        print(message)
    print("fits" if found["is_compatible"] else "does not fit")
    return 0 if found["is_compatible"] else 1


def delete(registry: Worker, args: Namespace) -> int:
    """Delete a subject or a version."""
    rest = "" if args.version is None else f"/versions/{args.version}"
    found = registry.ask("DELETE", _path(args.subject, f"{rest}?permanent={str(args.permanent).lower()}"))
    print(" ".join(map(str, found if isinstance(found, list) else [found])))
    return 0


# Moving


def export(registry: Worker, args: Namespace) -> int:
    """Print everything."""
    from ottla.cli.registry_moves import exported

    for each in exported(registry):
        print(json.dumps(each, ensure_ascii=False, separators=(",", ":")))
    return 0


def import_(registry: Worker, args: Namespace) -> int:
    """Take everything in."""
    from ottla.cli.registry_moves import take_in

    text = sys.stdin.read() if args.file == "-" else Path(args.file).read_text()
    try:
        entries = [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{args.file} is not what `ottla registry export` prints: {error}") from None
    print(f"{take_in(registry, entries)} versions")
    return 0
