"""Events as Kafka's verifiable tools print them: a JSON object per line, its time and name first."""

from __future__ import annotations

import json
import time

__all__ = ["print_event"]


def print_event(name: str, /, **fields: object) -> None:
    """Print one event at once, since a test may read it from a pipe."""
    event = {"timestamp": time.time_ns() // 1_000_000, "name": name, **fields}
    print(json.dumps(event, separators=(",", ":"), ensure_ascii=False), flush=True)
