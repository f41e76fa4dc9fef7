"""Golden texts: commands in order, and what Apache Kafka 4.3.0's own tools printed for each.

A file is a list of steps. `$ noun arguments [code]` begins one; `@` in it stands for the brokers' address, `@@` for the
controller's of the peer, and `{dir}` for a folder of files. What follows is standard output. A line that begins with
`! ` is a line of standard error, which Kafka's tool prints somewhere and Ottla prints first. `[0|1]` is Kafka's exit
code and Ottla's, where Kafka's tool ends a failure with 0. In the texts `{member}`, `{id}`, `{offset}` and `{time}`
stand for what differs from run to run. Kafka prints most lists in no order, so the lines of a step are compared sorted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests import peer

__all__ = ["Step", "neutral", "steps_of"]

HEAD = re.compile(r"\$ (\S+) ?(.*) \[(\d)(?:\|(\d))?\]")
PLACEHOLDERS = (
    (r"cl-1-[0-9a-f-]{36}", "{member}"),
    (r"(?<![\w-])[\w-]{22}(?![\w-])", "{id}"),
    (r"Epoch: \d+", "Epoch: {offset}"),
    (r"LeaderEpoch: ( +)\d+", r"LeaderEpoch: \1{epoch}"),
    (r"HighWatermark:( +)\d+", r"HighWatermark:\1{offset}"),
    (r"\t\d+ *\t0 +\t\d+( ms ago)? *\t\d+( ms ago)? *\tLeader", r"\t{offset}\t0\t{time}\t{time}\tLeader"),
    (r"127\.0\.0\.1:\d{5}", "@"),
    (r"127\.0\.0\.1 \d{5}", "@"),
)


@dataclass(frozen=True)
class Step:
    """One command with what must come of it; `code` is Ottla's, `kafka_code` that of Kafka's tool."""

    noun: str
    args: str
    kafka_code: int
    code: int
    out: str
    err: list[str]

    def arguments(self, bootstrap: str, folder: Path) -> list[str]:
        """Return the arguments for one cluster."""
        filled = [word.replace("{dir}", str(folder)) for word in self.args.split()]
        host, _, port = bootstrap.partition(":")
        controller = f"{host}:{int(port) + peer.CONTROLLER_PORT_AFTER}"
        return [{"@": bootstrap, "@@": controller}.get(word, word) for word in filled]


def steps_of(name: str) -> list[Step]:
    """Read a golden file."""
    found: list[Step] = []
    lines: list[str] = []
    for line in Path(__file__).with_name(name).read_text().splitlines():
        head = HEAD.fullmatch(line)
        if head is None:
            lines.append(line)
            continue
        if found:
            found[-1] = _complete(found[-1], lines)
        lines = []
        found.append(Step(head[1], head[2], int(head[3]), int(head[4] or head[3]), "", []))
    found[-1] = _complete(found[-1], lines)
    return found


def _complete(step: Step, lines: list[str]) -> Step:
    out = "".join(f"{line}\n" for line in lines if not line.startswith("! "))
    err = [line[2:] for line in lines if line.startswith("! ")]
    return Step(step.noun, step.args, step.kafka_code, step.code, out, err)


def neutral(text: str, folder: Path) -> list[str]:
    """Return the lines, sorted, with placeholders where runs differ."""
    text = text.replace(str(folder), "{dir}")
    for pattern, placeholder in PLACEHOLDERS:
        text = re.sub(pattern, placeholder, text)
    return sorted(text.splitlines())
