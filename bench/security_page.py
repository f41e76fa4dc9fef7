"""`python -m bench.security_page FILE.json > docs/security-benchmark.md`: the rows of `bench.security` as a page.

The notes of the run are in `FILE.md` beside it; the file of the page as it stands is `bench/results/security.json`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bench.rows import number

__all__ = ["page"]

INTRODUCTION = """# What security costs, beside Apache Kafka

Both brokers on one machine, in turn, in one run: `make bench-security OUT=bench-security.json` (needs `make peer` once;
about twenty minutes, `SIZE=0.1` for a trial), then `python -m bench.security_page bench-security.json >
docs/security-benchmark.md`; the rows of this page are those of `bench/results/security.json`. Every figure is the median
of its rounds, a ratio that of the rounds' own ratios. Ottla's hot modules are compiled.

- **TLS** is 1.3 with TLS_AES_256_GCM_SHA384 and a certificate of ECDSA P-256 on both, which the generator makes sure of.
  Kafka 4.3.0 has a heap of 1 GiB and was warmed for 20 s by all kinds of the load. The load is that of
  [benchmark.md](benchmark.md) through four TLS connections; it comes from a process of its own, which decrypts and encrypts
  as much as the broker does and has the same processors, so compare the brokers' processor time rather than rates. Logs
  lie in memory (`/dev/shm`), where there is any: the disk is no part of what TLS costs. Those of ACLs lie on the disk.
- **Handshakes** come four at a time, each with one answered request. Memory of idle connections is that of a broker that
  was started for them, each connection with one answered request, more than it had with ten.
- **ACLs**: two brokers side by side that differ in the authorizer alone. Clients log in by PLAIN and send single records
  of 100 bytes, 64 in flight on each of four connections; the writer is no super user, and one of 10,000 entries (by a
  prefix) lets it write, beside 500 for others on the very topic. Changes are CreateAcls and DeleteAcls in turn, and what
  they cost the broker is in the figure.
- **Floods**: single requests at 1,000/s on one connection in clear, beside 500 handshakes a second that their clients
  leave after the broker's answer (it has signed by then), or 500 logins a second with a wrong password.
- **others** is how many processors were busy with what this run had not started.
"""


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the lines of a table, the last column how many processors others kept busy meanwhile."""
    lines = ["| metric | mode | Ottla | Kafka | ratio | target | met | rounds | others |"]
    lines.append("|---|---|---:|---:|---:|---:|---|---:|---:|")
    for row in rows:
        met = {True: "yes", False: "**no**", None: ""}[row["met"]]
        cells = [row["metric"], row["mode"], number(row["ottla"], row["unit"]), number(row["kafka"], row["unit"])]
        cells += [number(row["ratio"]), row["target"] or "", met, str(row["rounds"]), number(row["others"])]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def page(rows: list[dict[str, Any]], notes: str) -> str:
    """Return the page of these rows."""
    return "\n".join([INTRODUCTION, notes.strip() + "\n", *table(rows)]) + "\n"


def main(argv: list[str]) -> int:
    """Print the page of a result file."""
    path = Path(argv[0])
    print(page(json.loads(path.read_text()), path.with_suffix(".md").read_text()), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
