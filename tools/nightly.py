"""`make nightly`: what `.ci/run` leaves out, step by step; each writes at its end when it ran into `docs/proofs.json`.

All steps run, whatever fails. `DUE=1` runs only what is due: what never ran, failed, is older than a month, or is older
than the code that it proves; so a run that was stopped goes on with it. `LIST=1` says what is due and runs nothing. A
failure names the seed or the case with which it is repeated.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, date, datetime

from proofs import ROOT, Ran, Step, read, steps, write

OLD_DAYS = 31
COUNTED = re.compile(r"\d+ (passed|failed|found|missed|cases|kinds|kills|stories)|rounds \d+|each result once|^FAILED")
"""A line that says how much was done and with what result; a step's last such line goes into the record."""
SAID_MAX = 110
NOTHING_TO_RUN = 5
"""pytest's exit code where a folder's slow tests are all comparisons with Kafka, which are a step of their own."""


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _commit() -> str:
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/proofs.*")
    return _git("rev-parse", "--short=10", "HEAD") + ("+" if changed else "")


def _changes_since(commit: str, paths: Sequence[str]) -> int | None:
    """Return how many commits have changed these paths since; `None` where git does not know the commit."""
    try:
        return int(_git("rev-list", "--count", f"{commit.rstrip('+')}..HEAD", "--", *paths))
    except subprocess.CalledProcessError:
        return None


def why_due(step: Step, ran: Ran | None, today: date) -> str:
    """Return why a step has to run again, empty where it has not."""
    if ran is None:
        return "never ran"
    if not ran.passed:
        return f"failed on {ran.day}"
    days = (today - date.fromisoformat(ran.day)).days
    if days > OLD_DAYS:
        return f"last ran {days} days ago"
    changes = _changes_since(ran.commit, step.proves)
    if changes is None:
        return f"ran on {ran.commit}, which is not in this clone's history"
    return f"{changes} commits later than its last run changed what it proves" if changes else ""


def chosen(every: Sequence[Step], only: str) -> list[Step]:
    """Return the steps that a name means: one, or a family (`slow` is every `slow/…`); several with commas.

    Raises:
        SystemExit: there is no step of a name (exit code 2).
    """
    wanted = [each for each in only.split(",") if each]
    for name in wanted:
        if not any(each.is_named(name) for each in every):
            families = dict.fromkeys(each.name.partition("/")[0] for each in every)
            print(f"nightly: there is no step {name}; the steps are {' '.join(families)}", file=sys.stderr)
            raise SystemExit(2)
    return [each for each in every if not wanted or any(each.is_named(name) for name in wanted)]


def run(step: Step) -> Ran:
    """Run a step, show what it prints, and return what the record keeps of it."""
    print(f"== {step.name}: not in every run, because {step.reason}", flush=True)
    commit, began, said = _commit(), time.monotonic(), ""
    with subprocess.Popen(
        step.command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            said = line.strip(" =\n") if COUNTED.search(line) else said
        code = process.wait()
    passed = code in (0, NOTHING_TO_RUN)
    if not said:
        said = "passed" if passed else f"exit code {code}"
    return Ran(datetime.now(UTC).date().isoformat(), commit, round(time.monotonic() - began), passed, said[:SAID_MAX])


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="nightly", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("only", nargs="?", default="", help="a step, a family of steps, or several with commas")
    parser.add_argument("--due", action="store_true", help="only what is due")
    parser.add_argument("--list", action="store_true", help="say what is due and run nothing")
    return parser.parse_args(arguments)


def main() -> int:
    """Run the steps that were asked for; returns the exit code."""
    given = options()
    ran, today = read(), datetime.now(UTC).date()
    asked = chosen(steps(), given.only)
    due = {each.name: why for each in steps() if (why := why_due(each, ran.get(each.name), today))}
    if given.list:
        for each in asked:
            print(f"{each.name}: {due.get(each.name) or 'not due'}")
        return 0
    failed = []
    for each in asked:
        if given.due and each.name not in due:
            continue
        found = run(each)
        write(each.name, found)
        due.pop(each.name, None)
        if not found.passed:
            failed.append(each.name)
    for name, why in due.items():
        print(f"nightly: {name} is due: {why}")
    print(f"nightly: FAILED: {' '.join(failed)}" if failed else "nightly: everything passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
