"""`ottla sql`: a prompt for ksqlDB's SQL, its server, and statements tried without either."""

from __future__ import annotations

import json
import math
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.base import ExactDecoder, plain_text
from ottla.cli.actions import parse_action
from ottla.cli.local.log_format import FORMATS, LEVELS
from ottla.cli.options import Options, UsageError, properties_file, whole_number

if TYPE_CHECKING:
    from argparse import Namespace
    from types import FrameType

    from ottla.sql.testing import CaseRecord, Engine

__all__ = ["main", "parsers"]

NOUN = "sql"
ACTIONS = ("shell", "server", "test", "migrations")
URL_DEFAULT = "http://localhost:8088"
CASE_SECONDS_MAX = 10.0
"""What one case of a suite may take; it costs that case alone."""
STATEMENTS, INPUT, OUTPUT, CASE = "statements.sql", "input.json", "output.json", "case.json"


ALARM_AGAIN_SECONDS = 1.0


class CaseTimeoutError(BaseException):
    """A case that did not end in its time. No code of a case's may catch it."""


def main(argv: list[str]) -> int:
    """Run the action that is named."""
    if not any(word in ACTIONS or word in ("-h", "--help") for word in argv):
        argv = ["shell", *argv]
    action, args = parse_action(NOUN, {parser.prog.split()[-1]: parser for parser in parsers()}, argv)
    if action == "shell":
        return shell(args)
    if action == "server":
        from ottla.cli.local.sql_run import run_sql_server

        return run_sql_server(args)
    if action == "migrations":
        from ottla.cli.sql_migrations.commands import run

        return run(args)
    if args.engine == "spark" and args.suite is None:
        raise UsageError("--engine spark runs suites: --suite DIR")
    if args.suite is not None:
        if args.statements or args.input or args.output:
            raise UsageError("--suite takes every folder of DIR; -s, -i and -o name the files of one case")
        return run_suite(Path(args.suite), args.engine)
    if args.statements is None or args.output is None:
        raise UsageError("say --suite DIR, or -s statements.sql, -i input.json and -o output.json")
    return run_one(Path(args.statements), None if args.input is None else Path(args.input), Path(args.output))


def parsers() -> list[Options]:
    """Return every action's parser."""
    from ottla.cli.sql_migrations import commands as migrations

    words = "Run statements over records of a file, and say whether what they write is what another file expects."
    parser = Options(f"{NOUN} test", words)
    parser.add_argument("-s", "--sql-file", dest="statements", metavar="FILE", help="the statements")
    parser.add_argument(
        "-i", "--input-file", dest="input", metavar="FILE", help='what goes in: {"inputs": [record, …]}'
    )
    parser.add_argument("-o", "--output-file", dest="output", metavar="FILE", help='what is expected: {"outputs": […]}')
    parser.add_argument(
        "--suite", metavar="DIR", help=f"run every folder of DIR ({STATEMENTS}, {INPUT}, {CASE}); a JSON line for each"
    )
    parser.add_argument(
        "--engine",
        choices=("python", "spark"),
        default="python",
        help="what runs a suite's queries: this process, or the tasks of one Spark session",
    )
    return [_shell_options(), _server_options(), parser, migrations.options()]


def _shell_options() -> Options:
    parser = Options(f"{NOUN} shell", "Type statements to a SQL server; `ottla sql` alone is the same.")
    url = os.environ.get("OTTLA_SQL_URL", URL_DEFAULT)
    parser.add_argument(
        "url", nargs="?", default=url, metavar="URL", help=f"the server's address ($OTTLA_SQL_URL; {URL_DEFAULT})"
    )
    parser.add_argument("-e", "--execute", metavar="STATEMENTS", help="carry these out and end")
    parser.add_argument("-f", "--file", metavar="FILE", help="carry a file's statements out and end")
    parser.add_argument(
        "-d", "--define", action="append", default=[], metavar="NAME=VALUE", help="a variable, ${NAME}; repeatable"
    )
    parser.add_argument(
        "-o", "--output", type=str.upper, choices=("TABULAR", "JSON"), default="TABULAR", help="how answers are shown"
    )
    parser.add_argument("-u", "--user", metavar="NAME", help="who asks; the password is asked for without -p")
    parser.add_argument("-p", "--password", metavar="PASSWORD", help="better in $OTTLA_SQL_PASSWORD")
    parser.add_argument("-t", "--token", metavar="TOKEN", help="a bearer's token; better in $OTTLA_SQL_TOKEN")
    parser.add_argument("--config-file", metavar="FILE", help="properties that the session begins with")
    parser.add_argument("--query-row-limit", type=whole_number, metavar="N", help="end a push query after so many rows")
    parser.add_argument("--query-timeout", type=whole_number, metavar="MS", help="end a push query after so long")
    return parser


def shell(args: Namespace) -> int:
    """Type statements, or carry some out; returns the exit code."""
    import sys

    from ottla.cli.sql_shell.client import ServerError, SqlClient
    from ottla.cli.sql_shell.repl import carry_out, history_file, prompt_loop, read_loop
    from ottla.cli.sql_shell.shell import Limits, Session

    if args.execute is not None and args.file is not None:
        raise UsageError("-e and -f do not go together")
    password = args.password or os.environ.get("OTTLA_SQL_PASSWORD")
    if args.user is not None and password is None:
        import getpass

        password = getpass.getpass("Password: ")
    client = SqlClient(
        args.url.rstrip("/"),
        args.user,
        password or "",
        args.token or os.environ.get("OTTLA_SQL_TOKEN"),
        properties=dict(properties_file(args.config_file)),
        variables=_defined(args.define),
    )
    seconds = None if args.query_timeout is None else args.query_timeout / 1000
    session = Session(client, output=args.output, limits=Limits(args.query_row_limit, seconds))
    try:
        if args.execute is not None or args.file is not None:
            return carry_out(session, args.execute if args.execute is not None else _text(Path(args.file)))
        if not sys.stdin.isatty():
            return read_loop(session, iter(sys.stdin), stops=True)
        try:
            info = client.info()
            session.say(
                f"Ottla SQL; the server at {client.url} is {info['serverStatus']}. `help` says what can be typed."
            )
        except ServerError as error:
            session.say(f"{error}\n`server URL` names another one.")
        return prompt_loop(session, history_file())
    finally:
        session.close()


def _defined(given: list[str]) -> dict[str, str]:
    found = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"-d {each} is not NAME=VALUE")
        found[name] = value.strip("'")
    return found


def _server_options() -> Options:
    parser = Options(f"{NOUN} server", "Run a SQL server, with ksqlDB's interface; it keeps its commands in a topic.")
    parser.add_argument("properties", nargs="?", metavar="ksql-server.properties", help="ksqlDB's own file")
    parser.add_argument("--config", metavar="FILE", help="the same file, by name")
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="wins; repeatable")
    parser.add_argument(
        "--bootstrap-server", metavar="HOST:PORT,…", help="the brokers, where no property names them (the context's)"
    )
    parser.add_argument("--context", metavar="NAME", help="the cluster of this name, where no property names brokers")
    parser.add_argument("--queries-file", metavar="FILE", help="run these statements only, and take none (headless)")
    parser.add_argument(
        "--engine",
        choices=("spark", "python"),
        help="where queries run: Spark's tasks (the default), or threads of this process, without a JVM",
    )
    parser.add_argument("--ends-with-input", action="store_true", help="stop when standard input ends")
    parser.add_argument(
        "--log-format", choices=FORMATS, default="text", help="of events on standard error: text or json"
    )
    parser.add_argument("--log-level", choices=LEVELS, default="info", help=f"{', '.join(LEVELS)}; info without it")
    return parser


def run_one(statements: Path, inputs: Path | None, outputs: Path) -> int:
    """Run one case as ksqlDB's test runner does; returns 0 where all came that was expected."""
    from ottla.sql import SqlError
    from ottla.sql.testing import difference, run_case

    given = [] if inputs is None else _records(inputs, "inputs")
    expected = _records(outputs, "outputs")
    try:
        found = run_case(_text(statements), given)
    except SqlError as error:
        print(f"\t>>>>> Test failed: {error}")
        return 1
    said = difference(expected, found)
    print("\t >>> Test passed!" if said is None else f"\t>>>>> Test failed: {said}")
    return 0 if said is None else 1


def run_suite(folder: Path, engine: str) -> int:
    """Run every case of a folder in the order of names, and print a JSON line for each at once."""
    from contextlib import nullcontext

    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder")
    cases = sorted(each for each in folder.iterdir() if (each / STATEMENTS).is_file())
    if not cases:
        raise UsageError(f"{folder} has no folder with {STATEMENTS}")
    if engine == "spark":
        from ottla.sql_server import spark_engine
    with spark_engine() if engine == "spark" else nullcontext() as runs:
        for case in cases:
            print(_line({"case": case.name, **_outcome(case, runs)}), flush=True)
    return 0


def _outcome(case: Path, engine: Engine | None) -> dict[str, object]:
    from ottla.sql import SqlError, UnsupportedError
    from ottla.sql.testing import Refused, run_case

    try:
        given = _records(case / INPUT, "inputs") if (case / INPUT).exists() else []
        topics = _listed(case / CASE, "topics") if (case / CASE).exists() else []
        with _limited(CASE_SECONDS_MAX):
            found: list[CaseRecord] = run_case(_text(case / STATEMENTS), given, topics, engine)
    except Refused as error:
        return {"status": "refused", "category": error.category, "message": str(error)}
    except UnsupportedError as error:
        return {"status": "unsupported", "message": str(error)}
    except (SqlError, UsageError) as error:
        return {"status": "refused", "category": "runtime", "message": str(error)}
    except CaseTimeoutError:
        return {"status": "refused", "category": "runtime", "message": f"not done after {CASE_SECONDS_MAX:g} s"}
    except Exception as error:  # one case's fault is not another's
        return {"status": "refused", "category": "runtime", "message": f"{type(error).__name__}: {error}"}
    return {"status": "done", "records": [record.shown() for record in found]}


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise CaseTimeoutError in the block when so many seconds have gone."""

    def late(number: int, frame: FrameType | None) -> None:
        raise CaseTimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds, ALARM_AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None


def _records(path: Path, name: str) -> list[Mapping[str, Any]]:
    records = _listed(path, name)
    if not all("topic" in each for each in records):
        raise UsageError(f'{path} has to be {{"{name}": [record, …]}}, and each record has to name its "topic"')
    return records


def _listed(path: Path, name: str) -> list[Mapping[str, Any]]:
    """The objects that a file lists under a name; a case.json without it has none."""
    try:
        found = ExactDecoder(float).decode(_text(path))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON: {error}") from None
    if isinstance(found, dict) and path.name == CASE and found.get(name) is None:
        return []
    listed = found.get(name) if isinstance(found, dict) else None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise UsageError(f'{path} has to be {{"{name}": [{{…}}, …]}}')
    return listed


_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _line(value: object) -> str:
    """A value as JSON on one line; decimals keep their scale."""
    parts: dict[type[object], Callable[[Any], str]] = {
        dict: lambda given: (
            "{" + ", ".join(f"{json.dumps(str(key))}: {_line(each)}" for key, each in given.items()) + "}"
        ),
        list: lambda given: f"[{', '.join(map(_line, given))}]",
        Decimal: plain_text,
        float: lambda given: json.dumps(given if math.isfinite(given) else _NOT_FINITE[str(given)]),
    }
    write = parts.get(type(value))
    return json.dumps(value) if write is None else write(value)
