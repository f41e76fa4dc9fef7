"""Write `docs/apis.json` and `docs/apis.md` from the handlers that the broker serves."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from textwrap import fill
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

OWN_KEYS_FROM = 1000
"""From this key on APIs are Ottla's own."""
HEAD = """# The APIs that Ottla serves

Written from the handlers by `tools/gen_api_docs.py`; ApiVersions answers from the same declarations, so nothing is
advertised that is not there, but for versions 0 to 2 of Produce, which Kafka advertises and refuses as well: librdkafka
up to 2.10 compresses only where it sees them. "Kafka 4.3" are the stable versions of that release. The access is what a
handler declares, and what is asked of the authorizer where one is configured (see [security.md](security.md)).
APIs from key 1000 on are Ottla's own: clients that do not know a key pass it over.

| key | API | versions | Kafka 4.3 | listeners | access |
|---:|---|---|---|---|---|
"""


def rows() -> list[dict[str, Any]]:
    """Return one row per API that Kafka 4.3 serves to clients or that Ottla serves, by key."""
    from ottla.broker.requests.handlers import all_handlers
    from ottla.wire import APIS

    served = {handler.api_key: handler for handler in all_handlers()}
    found = []
    for key, spec in sorted(APIS.items()):
        handler = served.get(key)
        needs = handler.needs if handler else None
        access = None
        if needs is not None and needs.operation is not None and needs.resource is not None:
            access = f"{needs.operation.name} on {needs.resource.name}"
        found.append(
            {
                "key": key,
                "name": spec.name,
                "versions": list(handler.versions) if handler else None,
                "advertised": [handler.advertised_from, handler.versions[1]] if handler else None,
                "kafka": [spec.min_version, spec.max_version] if key < OWN_KEYS_FROM else None,
                "listeners": list(spec.listeners),
                "access": access,
            }
        )
    return found


def versions(pair: list[int]) -> str:
    """Return a range of versions as text."""
    return str(pair[0]) if pair[0] == pair[1] else f"{pair[0]}–{pair[1]}"


def offered(row: dict[str, Any]) -> str:
    """Return the versions that are served, and those that are advertised where these are others."""
    served = versions(row["versions"])
    return served if row["advertised"] == row["versions"] else f"{served} ({versions(row['advertised'])} advertised)"


def render() -> dict[Path, str]:
    """Return the text of each file."""
    found = rows()
    served = [row for row in found if row["versions"]]
    missing = [row for row in found if not row["versions"]]
    page = HEAD + "".join(
        f"| {row['key']} | {row['name']} | {offered(row)} | {versions(row['kafka']) if row['kafka'] else 'Ottla only'} "
        f"| {', '.join(row['listeners'])} | {row['access'] or 'everyone'} |\n"
        for row in served
    )
    if missing:
        names = ", ".join(f"{row['name']} ({row['key']})" for row in missing)
        page += "\n" + fill(f"Not served yet, and not advertised: {names}.", 120) + "\n"
    data = json.dumps(served, indent=1) + "\n"
    return {DOCS / "apis.json": data, DOCS / "apis.md": page}


def main(argv: list[str]) -> int:
    """Write the files; with `--check` only name those that are not current."""
    stale = 0
    for path, text in render().items():
        if "--check" not in argv:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path.relative_to(ROOT)} is stale")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
