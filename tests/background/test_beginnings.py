"""Nothing of Ottla begins a task or a thread but by `ottla.background`, which sees how it ends."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.test_architecture import FILES, SOURCE, tree_of

BEGINS = {"create_task", "ensure_future", "asyncio.TaskGroup", "Thread", "threading.Timer", "run_coroutine_threadsafe"}
"""What begins a task or a thread, or has one do something that nobody need wait for."""
POOLS = {"self._threads", "closing", "executor", "pool"}
"""What pools of threads are called; others have a `submit` of their own."""
ELSEWHERE = {
    "log/os_disk.py: Thread": "the caller joins them, and raises what they have met",
    "connect/testing/contract.py: Thread": "the caller joins it, and raises what it has met",
    "cli/sql_shell/shell.py: Timer": "it does nothing but interrupt the main thread",
    "client/web.py: Timer": "it does nothing but close sockets, after which who reads from them is told",
    "client/blocking.py: run_coroutine_threadsafe": "the caller waits for the result",
    "connect/tasks/task_client.py: run_coroutine_threadsafe": "`begin` gives the future to its caller, as `awaited` does",
    "console/alerts/keeper.py: run_coroutine_threadsafe": "the caller waits for the result",
    "console/records/replay_jobs.py: run_coroutine_threadsafe": "the caller waits for the result",
    "spark/continuous/service.py: run_coroutine_threadsafe": "the caller waits for the result; a member's order cannot fail",
    "spark/streams/membership.py: run_coroutine_threadsafe": "callers wait; `_join_later` tells what it has met by `lost`",
    "spark/streams/web_server.py: run_coroutine_threadsafe": "the caller waits for the result",
    "connectors/s3/uploads.py: submit": "the results are waited for",
    "spark/continuous/applications.py: submit": "what is submitted says itself what it has met, or its result is waited for",
}
"""Where another way is taken, and why nothing ends unseen there; the list only shrinks."""


def begun() -> Iterator[str]:
    for path in FILES:
        where = str(path.relative_to(SOURCE))
        if where.startswith("background/"):
            continue
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if (
                name in BEGINS
                or ast.unparse(node.func) in BEGINS
                or (name == "submit" and ast.unparse(node.func).partition(".submit")[0] in POOLS)
            ):
                yield f"{where}: {name}"


def test_tasks_and_threads_are_begun_where_their_end_is_seen() -> None:
    found = set(begun())
    assert found == ELSEWHERE.keys(), (
        f"begin it by ottla.background, or say here why nothing ends unseen: {sorted(found - ELSEWHERE.keys())}; "
        f"gone: {sorted(ELSEWHERE.keys() - found)}"
    )


def test_nobody_begins_one_and_forgets_it() -> None:
    """`awaited` promises that its maker looks at the outcome: who throws the task away does not."""
    wrong = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in FILES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and getattr(node.value.func, "id", "") == "awaited"
    ]
    assert not wrong
