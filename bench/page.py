"""`python -m bench.page [RUN.json …] > docs/benchmark.md`: runs of the benchmark as a page, every row of each.

A run is what `python -m bench FAMILY --save RUN.json` keeps; those of the page as it stands are in `bench/results`, and are
taken where none is named. Notes on a run stand beside it in `RUN.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.__main__ import FAMILIES, make
from bench.broker import IN_MEMORY, batch_cases, broker_cases
from bench.compaction import compaction_cases
from bench.crowd import crowd_cases
from bench.rows import Row, number
from bench.runs import Run, rows_of
from bench.systems import KAFKA

__all__ = ["kept", "page", "read"]

RESULTS = Path(__file__).with_name("results")

INTRODUCTION = """# Ottla beside Apache Kafka

Both brokers on one machine, in turn, in one run, under the same load. `make bench` (needs `make peer` once) measures the
broker's rows in 20 minutes; `make bench-all` every family, and makes this page of them. `ONLY=` takes parts of names with
`|` between, `SAVE=file.json` keeps a run elsewhere, and `python -m bench.compare a.json b.json` says what has changed
from one run to another beyond the noise.

- Kafka 4.3.0 has the heap of its own scripts, 1 GiB; Ottla has no configuration. Neither flushes per request. Kafka is
  warmed up for 20 seconds before its first round.
- Five rounds of five seconds, in turn, the order rotating; `sync` before each; rounds with the
  logs in memory (/dev/shm) take two. A figure is the median of the rounds, a
  ratio the median of Ottla's value by Kafka's in the same round, and behind it stand the least and the greatest.
- Most rows come from a generator that sends pre-encoded requests over plain sockets and checks the answers' error
  codes, in a process of its own, so that the broker is what is measured; it says when it may be the limit itself.
- Processor time is the broker's process with its children. On few processors the load shares them with the broker:
  compare the columns, not the figures with other machines. *kernel* is the part of it that was spent in the kernel, of
  Ottla's and of Kafka's; a round in which that part was 1.5 times off its case's median counts as *marked*.
- `compiled` has the hot modules as machine code (`make install` with a C compiler), `pure` runs their source.
- Every batch is checked (lengths, CRC-32C, counts, sequences, header), and every record in it, as `differences.md` says,
  compiled or not.
- `producer-perf` and `consumer-perf` are Kafka's own tools with their defaults.
"""

TITLES = {
    "broker": "One broker",
    "pure": "One broker, not compiled",
    "crowd": "Ten thousand partitions",
    "spark": "Spark's connectors",
    "cluster": "Three brokers",
}


def page(runs: Sequence[tuple[Run, str]]) -> str:
    """Return the page of runs, each with its notes."""
    lines = [INTRODUCTION]
    shown: set[str] = set()
    for run, notes in runs:
        family = str(run.facts.get("family"))
        lines += [f"## {TITLES.get(family, family)}\n", f"{said(run)}\n"]
        if notes.strip():
            lines.append(notes.strip() + "\n")
        rows = rows_of(run)
        lines += [*table(rows, run), ""]
        shown |= {row.metric for row in rows}
    if absent := [name for name in known_metrics() if name not in shown]:
        lines.append("No run of these is kept, which the benchmark measures too: " + "; ".join(absent) + ".\n")
    return "\n".join(lines)


def said(run: Run) -> str:
    """Return the sentence on where and when a run was."""
    facts = run.facts
    return (
        f"{facts['at']}: {facts['rounds']} rounds, {facts['processors']} processors ({facts['machine']}), Linux "
        f"{facts['kernel']}, Python {facts['python']}, Kafka {facts['kafka']}."
    )


def table(rows: Sequence[Row], run: Run) -> list[str]:
    """Return the lines of a table."""
    lines = ["| metric | mode | Ottla | Kafka | ratio | target | met | rounds | kernel | load | marked |"]
    lines.append("|---|---|---:|---:|---:|---:|---|---:|---|---:|---:|")
    for row in rows:
        met = {True: "yes", False: "**no**", None: ""}[row.met]
        cells = [row.metric, row.mode, number(row.ottla, row.unit), number(row.kafka, row.unit)]
        cells += [number(row.ratio) + spread(run, row), row.target or "", met, str(row.rounds)]
        cells += [f"{percent(row.system_share)} / {percent(row.kafka_system_share)}", number(row.load), str(row.marked)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def spread(run: Run, row: Row) -> str:
    """Return the least and the greatest ratio of the rounds, in brackets; nothing where there are no two."""
    ours, theirs = run.values(row.metric, row.mode), run.values(row.metric, KAFKA)
    ratios = [ours[at] / theirs[at] for at in ours.keys() & theirs.keys() if theirs[at]]
    return f" ({number(min(ratios))} to {number(max(ratios))})" if len(ratios) > 1 else ""


def percent(share: float | None) -> str:
    """Return a share as people read it."""
    return "-" if share is None else f"{share:.0%}"


def known_metrics() -> list[str]:
    """Return the names of the rows that the benchmark makes of its own cases."""
    cases = [case for family in (broker_cases, compaction_cases, crowd_cases) for case in family(make, scale=1.0)]
    cases += batch_cases(1.0, IN_MEMORY)
    return list(dict.fromkeys(metric.name for case in cases for metric in case.metrics))


def read(path: Path) -> tuple[Run, str]:
    """Read a run with the notes beside it; raises ValueError for anything else."""
    notes = path.with_suffix(".md")
    return Run.load(path), notes.read_text() if notes.exists() else ""


def kept() -> list[Path]:
    """Return the runs of the page as it stands, in its order."""
    return [each for name in FAMILIES if (each := RESULTS / f"{name}.json").exists()]


def main(argv: list[str]) -> int:
    """Print the page of result files."""
    print(page([read(Path(each)) for each in argv or kept()]), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
