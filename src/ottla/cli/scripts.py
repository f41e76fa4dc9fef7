"""Kafka's script names (`kafka-topics`, `kafka-topics.sh`, …): each runs the noun that does its work.

pip installs every name twice, with and without `.sh`, and all of them call `main`, which looks at the name that it was
called by. The files of `home/bin` come through `python -m ottla.cli.scripts NAME …`.
"""

from __future__ import annotations

import os
import sys

from ottla.cli.kafka_names import NO_ZOOKEEPER, SCRIPTS
from ottla.cli.main import NOUNS, run

__all__ = ["main", "run_script"]


def main() -> int:
    """Run the script that this process was called as; returns the exit code."""
    return run_script(os.path.basename(sys.argv[0]), sys.argv[1:])


def run_script(name: str, args: list[str]) -> int:
    """Run one of Kafka's scripts by its name, with or without `.sh`; returns the exit code."""
    script = name.removesuffix(".sh")
    if script in NO_ZOOKEEPER:
        print(NO_ZOOKEEPER[script])
        return 0
    if script not in SCRIPTS:
        print(f"ottla: {name} is not one of Kafka's scripts", file=sys.stderr)
        return 1
    noun, *action = SCRIPTS[script]
    if noun not in NOUNS:
        print(f"{name}: not in this version of Ottla; `ottla --help` lists what is", file=sys.stderr)
        return 1
    return run(noun, [*action, *args])


if __name__ == "__main__":
    sys.exit(run_script(os.path.basename(sys.argv[1]), sys.argv[2:]))
