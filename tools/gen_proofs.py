"""Write `docs/proofs.md` of the steps of `make nightly` and the record of their last runs, `docs/proofs.json`."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from generated_page import write_or_check
from proofs import ROOT, Ran, Step, read, steps

PAGE = ROOT / "docs" / "proofs.md"
HEAD = """# Proofs: what was run beside `make test`, when, and with what result

`make nightly` writes this page at the end of each of its steps. `make nightly LIST=1` says which steps are due: those that
never ran, failed, are older than a month, or are older than the code that they prove. `make nightly DUE=1` runs them, and
`make nightly ONLY=sim` one. A commit with a + had changes that were not committed; a step runs on a machine that may do
other things, so its time is no benchmark.

| step | last run | commit | took | result | what it said |
| -- | -- | -- | -- | -- | -- |
"""
UNSTEADY = """
## Tests that failed now and then

Nothing is run a second time: what fails now and then is looked into until it is known whose race it is. So far it was the
tests' own, each time:

- `tests/broker/test_answer_memory.py`, fetches of many partitions: logs of a large new topic are made beside other work,
  and the tests did not wait for them. They do (`logs_made`).
- `tests/compat/test_mirror_maker.py`, a cluster moves: records of 2023 in a topic with eleven days of retention are deleted
  half a minute after Apache Kafka's start, so that a slow start of Spark found none. Records are of today, and brokers of
  tests look for old ones only where a test asks.
- `tests/connectors/cdc/test_mariadb_failover.py`: it read until nothing had come for 0.4 s. It reads until what it expects
  has come.
- Brokers of other tests, ended at random: a walk over all commands ran `server stop`, which stops every server of its user.
  It may signal nobody now.
- `tests/cost`: a round of flushing was counted with whichever request it fell upon. No housekeeping runs there.
"""
STEPS = """
## The steps

| step | proves | command | not in every run, because |
| -- | -- | -- | -- |
"""


def _took(seconds: int) -> str:
    return f"{seconds} s" if seconds < 180 else f"{round(seconds / 60)} min"


def _last(step: Step, ran: Ran | None) -> str:
    if ran is None:
        return f"| {step.name} | never | | | | |\n"
    result = "passed" if ran.passed else "**failed**"
    said = ran.said.replace("|", "\\|")
    return f"| {step.name} | {ran.day} | {ran.commit} | {_took(ran.seconds)} | {result} | {said} |\n"


def _about(step: Step) -> str:
    command = " ".join(each for each in step.command if each != "--no-print-directory" and "--ignore" not in each)
    return f"| {step.name} | {', '.join(f'`{each}`' for each in step.proves)} | `{command}` | {step.reason} |\n"


def page(record: Mapping[str, Ran]) -> str:
    """Return the page of a record."""
    every = steps()
    return (
        HEAD
        + "".join(_last(each, record.get(each.name)) for each in every)
        + UNSTEADY
        + STEPS
        + "".join(map(_about, every))
    )


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page(read()), sys.argv[1:]))
