"""`make new-command NAME=broker-load WHAT="print how busy brokers are"`: a command and its test, to begin with.

CONTRIBUTING.md's walk goes on from there. Both run as they are: the command prints the
cluster's id, as text, JSON or a table.
"""

from __future__ import annotations

import keyword
import re
import sys
from pathlib import Path

from new_files import ROOT, NewFilesError, make_files

COMMAND = '''"""`ottla {noun}`: {what}."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.cli.options import Options, check_required, open_client, output_option, properties_file
from ottla.cli.output import Answer, print_answer

if TYPE_CHECKING:
    from ottla.client import BlockingClient

__all__ = ["main"]


def main(argv: list[str]) -> int:
    """Ask the cluster, and print what it says; `main` of the front door turns an OttlaError into one line."""
    args = options().parse(argv)
    check_required(args, "bootstrap-server")
    with open_client(args.bootstrap_server, properties_file(args.command_config)) as client:
        rows = asked(client)
    if args.output == "text":
        for row in rows:
            print(row["clusterId"])
    else:
        print_answer(args.output, Answer(rows, {{"CLUSTER-ID": "clusterId"}}))
    return 0


def options() -> Options:
    """Return the parser; completion and docs/cli.md are made from it."""
    parser = Options("{noun}", "{sentence}.")
    parser.connection()
    output_option(parser)
    return parser


def asked(client: BlockingClient) -> list[dict[str, Any]]:
    """Return what is shown, a row each."""
    from ottla.wire.messages.describe_cluster import DescribeClusterRequest

    return [{{"clusterId": client.request(DescribeClusterRequest()).cluster_id}}]
'''

TEST = '''"""`ottla {noun}` against a broker."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run
from tests.server import running_server


def test_{snake}_prints_text_and_json(run: Run, tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        command = f"{noun} --bootstrap-server {{server.bootstrap}}"
        (row,) = json.loads(run(f"{{command}} -o json").out)
        assert run(command).out == f"{{row['clusterId']}}\\n"
'''


def with_noun(front_door: str, noun: str, what: str) -> str:
    """Return `cli/main.py` with one more entry at the end of `NOUNS`."""
    begin = front_door.index("NOUNS = {")
    end = front_door.index("\n}", begin)
    return f'{front_door[:end]}\n    "{noun}": "{what}",{front_door[end:]}'


def made(noun: str, what: str, *, root: Path = ROOT) -> list[Path]:
    """Write the files and return them; raises NewFilesError for a name that cannot be one, or that is taken."""
    snake = noun.replace("-", "_")
    if not re.fullmatch(r"[a-z][a-z0-9-]*[a-z0-9]", noun) or keyword.iskeyword(snake):
        raise NewFilesError(f"{noun or 'NAME'} is no noun: small letters, digits and dashes, such as broker-load")
    if '"' in what or "\n" in what:
        raise NewFilesError("WHAT is one line without quotes")
    door = root / "src" / "ottla" / "cli" / "main.py"
    command = root / "src" / "ottla" / "cli" / "commands" / f"{snake}.py"
    test = root / "tests" / "cli" / f"test_{snake}.py"
    for path in (command, test):
        if path.exists():
            raise NewFilesError(f"{path.relative_to(root)} is there already")
    words = {"noun": noun, "snake": snake, "what": what, "sentence": what[:1].upper() + what[1:]}
    command.write_text(COMMAND.format(**words))
    test.write_text(TEST.format(**words))
    door.write_text(with_noun(door.read_text(), noun, what))
    return [command, test, door]


def main(argv: list[str]) -> int:
    """Make the files that one name asks for, and say what comes next."""
    what = " ".join(argv[1:]).rstrip(".") or "say what it does"
    return int(make_files("new-command", lambda: made(argv[0] if argv else "", what), walk="A command"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
