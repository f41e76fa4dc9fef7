"""The doctor's questions about a Connect worker: which connectors have failed, and which run and do nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.admin import RestError
from ottla.cli.doctor.findings import Finding, counted, fail, named, ok, warning

if TYPE_CHECKING:
    from ottla.admin import Worker

__all__ = ["judged_connectors", "worker_checks"]

CHECK = "connect"


def worker_checks(workers: Sequence[Worker]) -> list[Finding]:
    """Judge the connectors of a worker, or of its group, by what its workers say of them."""
    statuses: list[dict[str, Any]] = []
    away = []
    for worker in workers:
        try:
            found = worker.ask("GET", "/connectors?expand=status")
        except RestError as error:
            remedy = "start it, or name another with --connect; a login goes into the address: http://name:password@host:8083"
            away.append(fail(CHECK, f"{worker.url} does not answer: {error.reason}", remedy))
            continue
        statuses += [each["status"] for each in found.values() if "status" in each]
    if len(away) == len(workers):
        return away
    return [*away, *judged_connectors(",".join(each.url for each in workers), statuses)]


def judged_connectors(urls: str, statuses: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Return what is wrong with connectors, of which some workers have given the statuses; or that nothing is."""
    names = sorted({each["name"] for each in statuses})
    failed = sorted({each["name"] for each in statuses if _failed(each)})
    found = []
    if failed:
        said = f"{counted(len(failed), 'connector')} failed at {urls}: {named(failed)}"
        found.append(
            fail(CHECK, said, "`ottla connect describe NAME` has the trace, `ottla connect restart NAME` tries again")
        )
    told = {(status["name"], each["task"]): each for status in statuses for each in status.get("progress", ())}
    for (name, task), each in told.items():
        if each.get("stalled"):
            said = f"task {task} of {name} is RUNNING and does nothing: {each['stalled']}"
            found.append(warning(CHECK, said, "look into the worker's log, and at its source or target"))
        found += [
            warning(CHECK, f"task {task} of {name}: {left_out}", "GET /connectors/NAME/status has all that it tells")
            for left_out in each.get("warnings", ())
        ]
    elsewhere = {
        (status["name"], task["id"]): str(task["worker_id"])
        for status in statuses
        for task in status["tasks"]
        if task["state"] == "RUNNING" and (status["name"], task["id"]) not in told
    }
    if elsewhere:
        where = named(sorted(set(elsewhere.values())))
        said = f"{counted(len(elsewhere), 'task')} of which only their workers say whether they move: at {where}"
        remedy = (
            "name those workers, too, with commas between: --connect URL,URL; a task that has just begun tells soon"
        )
        found.append(warning(CHECK, said, remedy))
    return found or [ok(CHECK, f"{counted(len(names), 'connector')} at {urls}: none failed, and none stands still")]


def _failed(status: Mapping[str, Any]) -> bool:
    return any(each["state"] == "FAILED" for each in (status["connector"], *status["tasks"]))
