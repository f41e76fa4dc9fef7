"""`make new-api NAME=ShareGroupDescribe`: a handler and its test, which CONTRIBUTING.md's walk begins with.

Both run as they are: the API answers its versions with an answer in which every field has its default.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from new_files import ROOT, NewFilesError, make_files

HANDLER = '''"""{name}: say in one line what it is for, and name its KIP."""

from __future__ import annotations

from ottla.broker.requests.handler import AccessParts, Handler, RequestContext
from ottla.security import NEEDS_NOTHING
from ottla.wire.messages.{snake} import {name}Request, {name}Response

__all__ = ["HANDLER"]


def {snake}(context: RequestContext[AccessParts], request: {name}Request) -> {name}Response:
    """Say what is answered; a KafkaError that is raised here becomes the answer's error."""
    return {name}Response()


HANDLER = Handler({name}Request, versions=({lowest}, {highest}), needs=NEEDS_NOTHING, handle={snake})
'''

TEST = '''"""{name} through the wire."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.wire.messages.{snake} import {name}Request, {name}Response
from tests.broker.node_client import run, running_node


@pytest.mark.parametrize("version", range({lowest}, {past}))
def test_{snake}_is_answered(tmp_path: Path, version: int) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            answer = await client.ask({name}Request(), version)
            assert answer == {name}Response()

    run(test)
'''


def snake_of(name: str) -> str:
    """Return `share_group_describe` for `ShareGroupDescribe`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def without(name: str, advertised: str) -> str:
    """Return `tests/broker/advertised.py` without the API among those that are missing."""
    line = re.compile(rf'^    "{name}": \w+,\n', re.MULTILINE)
    if not line.search(advertised):
        return advertised  # Kafka does not advertise it unless it is asked to
    shorter = line.sub("", advertised)
    return re.sub(r"(?<=^MISSING_MAX = )\d+", lambda found: str(int(found[0]) - 1), shorter, flags=re.MULTILINE)


def made(name: str, *, root: Path = ROOT) -> list[Path]:
    """Write the files and return them; raises NewFilesError for a name that is no API's, or one that is served."""
    from ottla.wire import APIS

    spec = next((each for each in APIS.values() if each.name == name), None)
    if spec is None:
        raise NewFilesError(
            f"{name or 'NAME'} is none of Kafka's APIs; docs/apis.md ends with those that are not served yet"
        )
    snake = snake_of(name)
    lowest, highest = spec.min_version, spec.max_version
    words = {"name": name, "snake": snake, "lowest": lowest, "highest": highest, "past": highest + 1}
    files = {
        root / "src" / "ottla" / "broker" / "api" / f"{snake}.py": HANDLER.format(**words),
        root / "tests" / "broker" / f"test_{snake}.py": TEST.format(**words),
    }
    for path in files:
        if path.exists():
            raise NewFilesError(f"{path.relative_to(root)} is there already")
    for path, text in files.items():
        path.write_text(text)
    listed = root / "tests" / "broker" / "advertised.py"
    listed.write_text(without(name, listed.read_text()))
    return [*files, listed]


def main(argv: list[str]) -> int:
    """Make the files that one name asks for, and say what comes next."""
    return int(make_files("new-api", lambda: made(argv[0] if argv else ""), walk="A Kafka API"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
