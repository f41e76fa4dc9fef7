"""Write `docs/configuration.md` from the tables of keys in `ottla.config`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from textwrap import fill

from generated_page import write_or_check

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "configuration.md"
UNUSED = "Known to Kafka's"
NOT_YET = {
    "metadata.max.idle.interval.ms",
    "num.recovery.threads.per.data.dir",
    "producer.id.expiration.check.interval.ms",
    "queued.max.requests",
}
"""Keys that have a meaning here and, most of them until there are several nodes, nothing that reads them."""

HEAD = """# Configuration

Written from the tables in `ottla.config` by `tools/gen_config_docs.py`. Names, types, defaults and bounds are Kafka
4.3's; a default of Ottla's own is one that suits a broker that starts without any configuration.

## Where a value comes from

The later line wins:

1. the default in the tables below
2. `server.properties`, named on the command line: `ottla server start server.properties`
3. the environment, as Kafka's container image spells it: `KAFKA_LOG_RETENTION_HOURS=24` is `log.retention.hours`
   (`_` is a dot, `__` an underscore, `___` a dash)
4. `--override key=value`, as often as needed
5. for brokers, what was altered while the cluster runs: the cluster-wide value, then the one of this broker
6. for topics, what the topic itself sets (`--config` when it is created, altered at any time)

A key that nobody knows is named in a warning, since a misspelt key should not pass in silence. A value that is not
allowed stops the start, or is refused with INVALID_CONFIG, and the message says what is allowed. *Change* says when a
broker's key may change: `start` at the next start only, `live` while it runs, broker by broker, and `live, cluster`
while it runs, for all brokers at once or for one.

"""
TOPICS = """## Topics

What a topic does not set comes from its broker's key of the same meaning (`retention.ms` from `log.retention.ms`, and
so on).

"""
BROKERS = """## Brokers

"""
GROUPS = """## Groups

"""
WITHOUT = """### Read and validated, without effect so far

These keys may stand in a configuration that comes from Kafka. They are checked like all others and answered to clients
that ask, and nothing depends on them yet. A broker's start names those that would be missed and are set to other than
their defaults:

"""


def cell(text: str | None) -> str:
    """Return text for a cell of a table."""
    if text is None:
        return ""
    shown = text.replace("|", "\\|")
    return f"`{shown}`" if shown else "(empty)"


def change(key: object) -> str:
    """Return when a key may change, in a word."""
    from ottla.config import UpdateMode

    return {UpdateMode.READ_ONLY: "start", UpdateMode.PER_BROKER: "live", UpdateMode.CLUSTER_WIDE: "live, cluster"}[
        key.mode  # type: ignore[attr-defined]
    ]


def has_effect(key: object) -> bool:
    """True where something in the broker depends on the key."""
    return not key.doc.startswith(UNUSED) and key.name not in NOT_YET  # type: ignore[attr-defined]


def table(keys: Iterable[object], *, with_change: bool) -> str:
    """Return the table of the keys that have an effect, and the names of the others."""
    shown = [key for key in keys if not key.internal or key.name.startswith("ottla.")]  # type: ignore[attr-defined]
    used = [key for key in shown if has_effect(key)]
    unused = [key.name for key in shown if not has_effect(key)]  # type: ignore[attr-defined]
    heads = ["key", "type", "default", "allowed", *(["change"] if with_change else []), "meaning"]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"] if used else []
    for key in used:
        cells = [f"`{key.name}`", key.type.name.lower(), cell(key.default), cell(key.bound)]  # type: ignore[attr-defined]
        cells += [change(key)] if with_change else []
        lines.append(f"| {' | '.join([*cells, key.doc])} |")  # type: ignore[attr-defined]
    text = "\n".join(lines) + "\n\n" if lines else ""
    if unused:
        text += WITHOUT + fill(", ".join(f"`{name}`" for name in unused), 160, break_on_hyphens=False) + ".\n\n"
    return text


def render() -> str:
    """Return the page."""
    from ottla.config import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS

    sections = [
        TOPICS + table(TOPIC_KEYS.values(), with_change=False),
        BROKERS + table(BROKER_KEYS.values(), with_change=True),
        GROUPS + table(GROUP_KEYS.values(), with_change=False),
    ]
    return HEAD + "".join(sections).rstrip("\n") + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, render(), sys.argv[1:]))
