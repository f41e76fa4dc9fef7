"""`ottla sql`: statements of ksqlDB's SQL, tried without a broker and without Spark."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.cli.actions import parse_action
from ottla.cli.options import Options, UsageError

if TYPE_CHECKING:
    from types import FrameType

    from ottla.sql.testing import CaseRecord

__all__ = ["main", "parsers"]

NOUN = "sql"
CASE_SECONDS_MAX = 10.0
"""What one case of a suite may take; it costs that case alone."""
STATEMENTS, INPUT, OUTPUT, CASE = "statements.sql", "input.json", "output.json", "case.json"


class CaseTimeoutError(Exception):
    """A case that did not end in its time."""


def main(argv: list[str]) -> int:
    """Run the action that is named."""
    _, args = parse_action(NOUN, {parser.prog.split()[-1]: parser for parser in parsers()}, argv)
    if args.engine == "spark":
        raise UsageError("--engine spark is not there yet; python is")
    if args.suite is not None:
        if args.statements or args.input or args.output:
            raise UsageError("--suite takes every folder of DIR; -s, -i and -o name the files of one case")
        return run_suite(Path(args.suite))
    if args.statements is None or args.output is None:
        raise UsageError("say --suite DIR, or -s statements.sql, -i input.json and -o output.json")
    return run_one(Path(args.statements), None if args.input is None else Path(args.input), Path(args.output))


def parsers() -> list[Options]:
    """Return every action's parser."""
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
    parser.add_argument("--engine", choices=("python", "spark"), default="python", help="what runs the queries: python")
    return [parser]


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


def run_suite(folder: Path) -> int:
    """Run every case of a folder in the order of names, and print a JSON line for each at once."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder")
    cases = sorted(each for each in folder.iterdir() if (each / STATEMENTS).is_file())
    if not cases:
        raise UsageError(f"{folder} has no folder with {STATEMENTS}")
    for case in cases:
        print(_line({"case": case.name, **_outcome(case)}), flush=True)
    return 0


def _outcome(case: Path) -> dict[str, object]:
    from ottla.sql import SqlError, UnsupportedError
    from ottla.sql.testing import Refused, run_case

    try:
        given = _records(case / INPUT, "inputs") if (case / INPUT).exists() else []
        topics = _listed(case / CASE, "topics") if (case / CASE).exists() else []
        with _limited(CASE_SECONDS_MAX):
            found: list[CaseRecord] = run_case(_text(case / STATEMENTS), given, topics)
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
    signal.setitimer(signal.ITIMER_REAL, seconds)
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
        found = json.loads(_text(path), parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON: {error}") from None
    if isinstance(found, dict) and path.name == CASE and found.get(name) is None:
        return []
    listed = found.get(name) if isinstance(found, dict) else None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise UsageError(f'{path} has to be {{"{name}": [{{…}}, …]}}')
    return listed


def _line(value: object) -> str:
    """A value as JSON on one line; decimals keep their scale."""
    parts: dict[type[object], Callable[[Any], str]] = {
        dict: lambda given: (
            "{" + ", ".join(f"{json.dumps(str(key))}: {_line(each)}" for key, each in given.items()) + "}"
        ),
        list: lambda given: f"[{', '.join(map(_line, given))}]",
        Decimal: lambda given: f"{given:f}",
    }
    write = parts.get(type(value))
    return json.dumps(value) if write is None else write(value)
