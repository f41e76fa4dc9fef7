"""Asks Java the questions again and writes its answers down."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.sql.facts import FACTS
from tests.sql.facts.questions import questions


def main() -> None:
    """Write the facts' file."""
    asked = [*questions()]
    lines = "\n".join(json.dumps(each) for each in asked) + "\n"
    program = FACTS.with_name("JavaFacts.java")
    found = subprocess.run(
        ["java", "-Duser.timezone=UTC", "-Duser.language=en", "-Duser.country=US", str(program)],
        input=lines,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    if len(found) != len(asked):
        sys.exit(f"{len(asked)} questions, {len(found)} answers")
    facts = [
        json.dumps([question, json.loads(answer)], ensure_ascii=True)
        for question, answer in zip(asked, found, strict=True)
    ]
    FACTS.write_text("[\n" + ",\n".join(facts) + "\n]\n")


if __name__ == "__main__":
    main()
