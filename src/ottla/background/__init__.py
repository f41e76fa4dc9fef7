"""What runs beside whoever has begun it: tasks and threads of which none ends unseen.

A task of asyncio that fails says nothing until somebody looks, and what it served goes on as if it were there: a table that
nobody follows answers old rows, a partition that nobody fetches falls behind. So whatever nobody awaits is begun by
`supervise`, `keep_running` or `supervise_thread`: its failure is logged with what it serves, counted, and told to its owner,
who fails too, says that it is not well, or begins it again. What its maker awaits is begun by `awaited`; its error is the
maker's. asyncio holds its tasks weakly; these are held until they end. Shell: asyncio and threads, nothing of Ottla.
"""

from ottla.background.failures import count_failure, ended_badly, failure_counts, note_failure, why_ended
from ottla.background.tasks import awaited, end, keep_running, restarting, running, supervise
from ottla.background.threads import APART_MAX, apart, supervise_thread

__all__ = [
    "APART_MAX",
    "apart",
    "awaited",
    "count_failure",
    "end",
    "ended_badly",
    "failure_counts",
    "keep_running",
    "note_failure",
    "restarting",
    "running",
    "supervise",
    "supervise_thread",
    "why_ended",
]
