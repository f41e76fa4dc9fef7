"""Say in few lines what failed in a run of tests, for who sees only the end of its output: CI keeps the last lines.

Reads the run's output, and the folder where `tests/hangs.py` wrote what hung: `what_failed.py OUTPUT FOLDER`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LINES_MAX = 8
"""How many failed tests are named again."""
WIDTH = 170
FRAMES_MAX = 9
"""How many of the innermost frames of a test that hung are shown."""
_FAILED = re.compile(r"^(?:FAILED|ERROR) .*")
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')


def main(output: Path, hung_folder: Path) -> None:
    """Print what failed, and where tests hung."""
    lines = output.read_text(errors="replace").splitlines()
    failed = list(dict.fromkeys(line for line in lines if _FAILED.match(line)))
    if failed:
        print(f"{len(failed)} failed:")
    for line in failed[:LINES_MAX]:
        print(f"  {line[:WIDTH]}")
    hung = {where_it_hung(path.read_text()) for path in hung_folder.iterdir()}
    print(*sorted(hung), sep="\n", end="")


def where_it_hung(traces: str) -> str:
    """The hung test's name and the innermost frames of its main thread, which is the last one of the first dump."""
    name, _, dump = traces.partition("\n")
    first = dump.split(f"\n{name}\n", 1)[0]
    main_thread = first.rsplit("(most recent call first):", 1)[-1]
    frames = [f"  {'/'.join(path.split('/')[-3:])}:{line} {what}\n" for path, line, what in _FRAME.findall(main_thread)]
    return f"hung: {name}\n" + "".join(frames[:FRAMES_MAX])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
