"""Loops that await what may be there already let others run: else they spin, and what they wait for never happens.

A future that is done gives its result at once, and its callbacks wait in the loop's queue until somebody yields; an event
that is set is no reason to wait. A loop that asks such a one again and again, until a callback has changed something, runs
for ever. `asyncio.wait` and `asyncio.sleep` yield at each turn.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.test_architecture import FILES, SOURCE, tree_of

YIELDS = {"asyncio.sleep", "asyncio.wait"}
"""What lets others run each time, whatever it is given."""
FUTURES = {"asyncio.shield", "asyncio.wait_for", "asyncio.gather"}
"""What is done at once where the futures that it is given are."""
ENDS = {
    "broker/replicas/local_partition.py: flush": "`_running_flush` is None for a flush that is done, whatever waits still",
    "broker/replicas/local_partition.py: quiet": "the same",
    "broker/replicas/local_partition.py: instead_of_flush": "the same",
    "broker/controller/duties.py: until_known": "the event is replaced as soon as it is set",
    "broker/controller/lifecycle.py: leave": "the loop ends when the event is set",
    "connect/distributed/herder.py: _doing": "where the event is set, the loop ends once it has its turn",
    "cli/dev/services.py: keep": "each turn awaits the start of a new process",
    "registry/rest/forwarding.py: answered": "a condition: each wait is for the next change",
}
"""Loops that await what may be done, and why they end all the same."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


def own_nodes(function: Function) -> Iterator[ast.AST]:
    """Yield a function's nodes without those of functions within it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, Function | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def is_risky(awaited: ast.expr, loop: str) -> bool:
    """Whether an awaited expression may be there already, at each turn of its loop."""
    if not isinstance(awaited, ast.Call):
        return True  # a future that somebody else has made
    name = ast.unparse(awaited.func)
    if name in FUTURES:
        return not any(isinstance(each, ast.Call) for arg in awaited.args for each in ast.walk(arg))
    owner, _, method = name.rpartition(".")
    return method == "wait" and owner != "asyncio" and f"{owner}.clear()" not in loop


def loops() -> Iterator[tuple[str, str]]:
    for path in FILES:
        for function in ast.walk(tree_of(path)):
            if not isinstance(function, ast.AsyncFunctionDef):
                continue
            for node in own_nodes(function):
                if isinstance(node, ast.While):
                    text = ast.unparse(node)
                    inner = [each for child in [node.test, *node.body] for each in ast.walk(child)]
                    found = [each.value for each in inner if isinstance(each, ast.Await)]
                    yields = any(isinstance(each, ast.Call) and ast.unparse(each.func) in YIELDS for each in found)
                    if not yields and any(is_risky(each, text) for each in found):
                        yield f"{path.relative_to(SOURCE)}: {function.name}", text


def test_a_loop_that_awaits_what_may_be_done_yields_or_says_why_it_ends() -> None:
    found = dict(loops())
    new = {name: text for name, text in found.items() if name not in ENDS}
    assert not new, "use asyncio.wait, or say here why it cannot spin:\n" + "\n".join(
        f"{n}\n{t}" for n, t in new.items()
    )
    assert found.keys() == ENDS.keys(), f"gone: {sorted(ENDS.keys() - found.keys())}"
