"""What the operating system says of this process, under the names that Prometheus' clients use."""

from __future__ import annotations

import os
import resource

__all__ = ["process_facts"]

START_FIELD = 19
"""Which of the fields behind the name in `/proc/self/stat` is the start, in ticks since the machine's own."""


def process_facts() -> dict[str, float]:
    """Return metrics by name; where there is no `/proc`, only those that do not need it."""
    times = os.times()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    facts = {
        "process_cpu_seconds_total": round(times.user + times.system + times.children_user + times.children_system, 6),
        "process_max_fds": float(limit),
    }
    try:
        pages = _read("/proc/self/statm").split()
        size = os.sysconf("SC_PAGE_SIZE")
        facts["process_virtual_memory_bytes"] = int(pages[0]) * size
        facts["process_resident_memory_bytes"] = int(pages[1]) * size
        facts["process_open_fds"] = len(os.listdir("/proc/self/fd"))
        facts["process_start_time_seconds"] = _started_s()
    except FileNotFoundError:
        facts["process_resident_memory_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return facts


def _started_s() -> float:
    fields = _read("/proc/self/stat").rpartition(")")[2].split()
    boot_s = next(int(line.split()[1]) for line in _read("/proc/stat").splitlines() if line.startswith("btime "))
    return boot_s + int(fields[START_FIELD]) / os.sysconf("SC_CLK_TCK")


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()
