"""The doctor's questions about a Connect worker: which connectors have failed, and which run and do nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.admin import RestError
from ottla.cli.doctor.findings import Finding, counted, fail, named, ok, warning

if TYPE_CHECKING:
    from ottla.admin import Worker

__all__ = ["ANSWER_SECONDS_MAX", "judged_connectors", "worker_checks"]

CHECK = "connect"
ANSWER_SECONDS_MAX = 15.0
"""How long a worker may take to say what its connectors do; one that is frozen never does."""
_CARES = ("RUNNING", "FAILED", "UNASSIGNED", "RESTARTING")
"""States of a connector that is meant to run."""


def worker_checks(workers: Sequence[Worker]) -> list[Finding]:
    """Judge the connectors of a worker, or of its group, by what its workers say of them."""
    statuses: list[dict[str, Any]] = []
    names: set[str] = set()
    away = []
    for worker in workers:
        try:
            there, found = worker.ask("GET", "/connectors"), worker.ask("GET", "/connectors?expand=status")
        except RestError as error:
            remedy = "start it, or name another with --connect; a login goes into the address: http://name:password@host:8083"
            away.append(fail(CHECK, f"{worker.url} does not answer: {error.reason}", remedy))
            continue
        if not isinstance(found, dict) or not isinstance(there, list):
            away.append(fail(CHECK, f"{worker.url} is no Connect worker: it has no list of connectors", "name another"))
            continue
        names.update(there)
        statuses += [each["status"] for each in found.values() if "status" in each]
    if len(away) == len(workers):
        return away
    return [*away, *judged_connectors(",".join(each.url for each in workers), statuses, sorted(names))]


def judged_connectors(urls: str, statuses: Sequence[Mapping[str, Any]], known: Collection[str] = ()) -> list[Finding]:
    """Return what is wrong with connectors, of which some workers have given the statuses; or that nothing is.

    `known` are the names of all, also of those that have no status.
    """
    names = sorted({*known, *(each["name"] for each in statuses)})
    failed = sorted({each["name"] for each in statuses if _failed(each)})
    found = []
    if failed:
        said = f"{counted(len(failed), 'connector')} failed at {urls}: {named(failed)}"
        found.append(
            fail(CHECK, said, "`ottla connect describe NAME` has the trace, `ottla connect restart NAME` tries again")
        )
    found += _unattended(statuses, names)
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
    well = [ok(CHECK, f"{counted(len(names), 'connector')} at {urls}: none failed, and none stands still")]
    return [*(found or well), *_idle(statuses)]


def _idle(statuses: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Return which connectors have no task, as it should be, and why."""
    told = {each["name"]: each["no_tasks"] for each in statuses if each.get("no_tasks")}
    return [ok(CHECK, f"{name} has no task, and needs none: {told[name]}") for name in sorted(told)]


def _unattended(statuses: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[Finding]:
    """Return what nobody runs of the connectors that are meant to run, and those that have nothing to run."""
    missing = {*names} - {each["name"] for each in statuses}
    idle, without = set(), set()
    for status in statuses:
        if status["connector"]["state"] not in _CARES:
            continue
        if any(each["state"] == "UNASSIGNED" for each in (status["connector"], *status["tasks"])):
            idle.add(status["name"])
        elif status["connector"]["state"] == "RUNNING" and not status["tasks"]:
            without.add(status["name"])
    without -= {each["name"] for each in statuses if each.get("no_tasks")}
    found = []
    if nobodys := sorted(idle | missing):
        said = f"{counted(len(nobodys), 'connector')} of which a part is run by nobody: {named(nobodys)}"
        remedy = (
            "a worker that starts, or a group that shares anew, takes some seconds; else look into the workers' logs"
        )
        found.append(warning(CHECK, said, remedy))
    if without:
        said = f"{counted(len(without), 'connector')} without a task, so that nothing moves: {named(sorted(without))}"
        remedy = (
            "it has found nothing to do: look at its configuration and its worker's log; whether that is right only its own "
            "worker knows, which --connect URL,URL can name too"
        )
        found.append(warning(CHECK, said, remedy))
    return found


def _failed(status: Mapping[str, Any]) -> bool:
    return any(each["state"] == "FAILED" for each in (status["connector"], *status["tasks"]))
