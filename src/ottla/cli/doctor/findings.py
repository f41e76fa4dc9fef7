"""What `ottla doctor` says: one line per check, and what to do where it is not well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ottla.cli.output import Answer, paint, print_answer

__all__ = ["Finding", "Status", "counted", "fail", "named", "ok", "print_findings", "warning"]


class Status(StrEnum):
    """How grave a finding is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


STYLES = {Status.OK: "green", Status.WARN: "yellow", Status.FAIL: "red"}
NAMES_MAX = 5
COLUMNS = {"STATUS": "status", "CHECK": "check", "FOUND": "said", "REMEDY": "remedy"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One check's outcome."""

    status: Status
    check: str
    said: str
    remedy: str = ""
    """What to do; empty where all is well."""


def counted(count: int, word: str, plural: str = "") -> str:
    """Return a number with its word, `1 copy` or `2 copies`; the plural has an s unless it is given."""
    return f"{count} {word if count == 1 else plural or word + 's'}"


def named(names: Sequence[object]) -> str:
    """Return the first few names, and how many more there are."""
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return ", ".join(map(str, names[:NAMES_MAX])) + more


def ok(check: str, said: str) -> Finding:
    """Return that all is well."""
    return Finding(Status.OK, check, said)


def warning(check: str, said: str, remedy: str) -> Finding:
    """Return what works, but not for long or not for everybody."""
    return Finding(Status.WARN, check, said, remedy)


def fail(check: str, said: str, remedy: str) -> Finding:
    """Return what does not work."""
    return Finding(Status.FAIL, check, said, remedy)


def print_findings(form: str, findings: Sequence[Finding]) -> None:
    """Print them as lines for people, or in another form."""
    if form != "text":
        rows = [
            {"status": str(each.status), "check": each.check, "said": each.said, "remedy": each.remedy or None}
            for each in findings
        ]
        print_answer(form, Answer(rows, COLUMNS, name="check"))
        return
    width = max(len(each.check) for each in findings)
    for each in findings:
        print(f"{paint(f'{each.status:<4}', STYLES[each.status])}  {each.check:<{width}}  {each.said}")
        if each.remedy:
            print(f"{'':<{width + 8}}→ {each.remedy}")
