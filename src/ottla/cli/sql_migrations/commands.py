"""The commands of `ottla sql migrations`, with what they print."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.options import Options, UsageError, whole_number
from ottla.cli.sql_migrations.applying import (
    Wanted,
    apply_file,
    check_applied,
    check_not_running,
    checked_statements,
    latest_version,
    to_apply,
)
from ottla.cli.sql_migrations.metadata import CURRENT, NONE, NOTHING, PENDING, Applied, Metadata
from ottla.cli.sql_migrations.project import (
    MigrationError,
    MigrationFile,
    Project,
    create_file,
    migration_files,
    new_project,
    read_project,
)
from ottla.cli.sql_shell.client import ServerError, SqlClient

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["options", "run"]

COMMANDS: Mapping[str, str] = {
    "new-project": "make a project's folder and config file: new-project PATH URL",
    "initialize-metadata": "make the stream and the table that tell what was applied",
    "create": "make an empty file for the next version: create [-v VERSION] DESCRIPTION",
    "apply": "apply files: -a, -n, -u VERSION or -v VERSION; with --dry-run only show them",
    "info": "show versions and their states",
    "validate": "check that what was applied is what the files say",
    "destroy-metadata": "drop the stream, the table and their topics; what was applied stays",
    "help": "print this",
}
MODES = ("all", "next", "until", "version")
TAKES: Mapping[str, tuple[str, ...]] = {"create": ("version",), "apply": (*MODES, "define", "dry_run")}
"""Options beside the config file, by command."""
OPTIONS = (*MODES, "define", "dry_run")
HEADS = ("Version", "Name", "State", "Previous Version", "Started On", "Completed On", "Error Reason")


def options() -> Options:
    """Return the one parser of all commands."""
    words = "Apply numbered files of statements to a SQL server, once each, as ksql-migrations does. Commands: "
    words += "; ".join(f"{name}: {does}" for name, does in COMMANDS.items()) + "."
    parser = Options("sql migrations", words, tells_version=False)
    parser.add_argument("command", choices=tuple(COMMANDS), help="what to do")
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="PATH and URL, or DESCRIPTION")
    parser.add_argument("-c", "--config-file", metavar="FILE", help="the project's ksql-migrations.properties")
    parser.add_argument("-a", "--all", action="store_true", help="apply all files that are left")
    parser.add_argument("-n", "--next", action="store_true", help="apply the next file")
    parser.add_argument(
        "-u", "--until", type=whole_number, metavar="VERSION", help="apply all files up to this version"
    )
    parser.add_argument("-v", "--version", type=whole_number, metavar="VERSION", help="apply, or create, this version")
    parser.add_argument(
        "-d", "--define", action="append", default=[], metavar="NAME=VALUE", help="a variable of every file; repeatable"
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would be applied, and send no statement")
    return parser


def run(args: Namespace) -> int:
    """Run a command; returns the exit code."""
    if args.command == "help":
        options().print_help()
        return 0
    _check(args)
    begun_s = time.monotonic()
    try:
        _COMMANDS[args.command](args)
    except (MigrationError, ServerError) as error:
        print(error)
        return 1
    if args.command != "info":
        print(f"Execution time: {time.monotonic() - begun_s:.4f} seconds")
    return 0


def _check(args: Namespace) -> None:
    """Raise UsageError for options and arguments that the command does not take, or lacks."""
    takes = TAKES.get(args.command, ())
    for name in OPTIONS:
        if getattr(args, name) not in (None, False, []) and name not in takes:
            raise UsageError(f"{args.command} takes no --{name.replace('_', '-')}")
    count = {"new-project": 2, "create": 1}.get(args.command, 0)
    if len(args.arguments) != count:
        wanted = {"new-project": "PATH and URL", "create": "a DESCRIPTION"}.get(args.command, "no arguments")
        raise UsageError(f"{args.command} takes {wanted}")
    if args.command == "new-project":
        if args.config_file is not None:
            raise UsageError("new-project makes the config file: it takes no --config-file")
    elif args.config_file is None:
        raise UsageError("Migrations config file required but not specified. Specify with --config-file (-c)")
    given = [name for name in MODES if getattr(args, name) not in (None, False)]
    if args.command == "apply" and len(given) != 1:
        raise UsageError("apply takes one of --all (-a), --next (-n), --until (-u) and --version (-v)")


def _client(project: Project) -> SqlClient:
    tls = None
    if project.tls and project.url.lower().startswith("https://"):
        from ottla.security import Tls, TlsSettings

        tls = Tls(TlsSettings.of(dict(project.tls)), server=False).context
    return SqlClient(project.url, project.user, project.password, project.token, tls=tls)


def _opened(args: Namespace) -> tuple[Project, SqlClient, Metadata]:
    project = read_project(Path(args.config_file))
    client = _client(project)
    return project, client, Metadata(_client(project), project)


def _print(lines: list[str]) -> None:
    for each in lines:
        print(each)


def _new_project(args: Namespace) -> None:
    path, url = args.arguments
    _print(new_project(Path(path), url))


def _initialize(args: Namespace) -> None:
    _, _, metadata = _opened(args)
    print("Initializing migrations metadata")
    _print(metadata.initialize())


def _create(args: Namespace) -> None:
    project = read_project(Path(args.config_file))
    print(f"Creating migration file: {create_file(project.folder, args.arguments[0], args.version)}")
    print("Migration file successfully created")


def _destroy(args: Namespace) -> None:
    _, _, metadata = _opened(args)
    _print(metadata.destroy())


def _files(project: Project) -> list[MigrationFile]:
    files, said = migration_files(project.folder)
    _print(said)
    return files


def _validate(args: Namespace) -> None:
    project, _, metadata = _opened(args)
    metadata.check_initialized()
    check_applied(metadata.versions(), _files(project))
    print("Successfully validated checksums for migrations that have already been applied")


def _apply(args: Namespace) -> None:
    project, client, metadata = _opened(args)
    variables = _defined(args.define)
    if args.dry_run:
        print("This is a dry run. No ksqlDB statements will be submitted to the ksqlDB server.")
    metadata.check_initialized()
    print("Validating current migration state before applying new migrations")
    versions, files = metadata.versions(), _files(project)
    check_not_running(versions)
    check_applied(versions, files)
    print("Loading migration files")
    wanted = to_apply(Wanted(args.all, args.next, args.until, args.version), versions, files)
    print(f"{len(wanted)} migration file(s) loaded.")
    if not wanted:
        print("No eligible migrations found.")
        return
    for each in wanted:
        checked_statements(each)
    previous = latest_version(versions)
    for each in wanted:
        print(f"Applying migration version {each.version}: {each.name}")
        print(f"{each.path} contents:\n{each.text}")
        if not args.dry_run:
            apply_file(client, metadata, each, previous, variables, _now_ms)
            print("Successfully migrated")
        previous = str(each.version)
    if args.dry_run:
        print("Dry run complete. No migrations were actually applied.")


def _defined(given: list[str]) -> dict[str, str]:
    found = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"-d {each} is not NAME=VALUE")
        found[name] = value.strip("'")
    return found


def _info(args: Namespace) -> None:
    project, _, metadata = _opened(args)
    metadata.check_initialized()
    versions, files = metadata.versions(), _files(project)
    current = versions.pop(CURRENT, None)
    print(f"Current migration version: {'None' if current is None else current.version}")
    local = {str(each.version): each for each in files}
    numbers = sorted({*versions, *local}, key=lambda each: (len(each), each))
    rows = [_told(number, versions.get(number), local.get(number)) for number in numbers]
    widths = [max(len(row[at]) for row in (HEADS, *rows)) for at in range(len(HEADS))]
    lines = ["|".join(f" {cell:<{width}} " for cell, width in zip(row, widths, strict=True)) for row in (HEADS, *rows)]
    rule = "-" * len(lines[0])
    _print([rule, lines[0], rule, *lines[1:], rule])


def _told(number: str, applied: Applied | None, file: MigrationFile | None) -> tuple[str, ...]:
    if applied is None:
        return (number, "" if file is None else file.name, PENDING, NOTHING, NOTHING, NOTHING, NOTHING)
    times = (_moment(applied.started_on), _moment(applied.completed_on))
    reason = " ".join(applied.error_reason.split())
    return (number, applied.name, applied.state, applied.previous or NONE, *times, reason)


def _moment(text: str) -> str:
    """Milliseconds since 1970 in this machine's time, as ksqlDB's tool shows them."""
    if not text.isdecimal():
        return text or NOTHING
    try:
        when = datetime.fromtimestamp(int(text) / 1000).astimezone()
    except (ValueError, OverflowError, OSError):
        return text
    return f"{when:%Y-%m-%d %H:%M:%S}.{int(text) % 1000:03} {when:%Z}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


_COMMANDS: Mapping[str, Callable[[Namespace], None]] = {
    "new-project": _new_project,
    "initialize-metadata": _initialize,
    "create": _create,
    "apply": _apply,
    "info": _info,
    "validate": _validate,
    "destroy-metadata": _destroy,
}
