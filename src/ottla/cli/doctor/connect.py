"""The doctor's questions about a Connect worker: which connectors have failed, and which run and do nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.base import OttlaError
from ottla.cli.doctor.findings import Finding, fail, named, ok, warning

if TYPE_CHECKING:
    from ottla.admin import Worker

__all__ = ["judged_connectors", "worker_checks"]

CHECK = "connect"


def worker_checks(worker: Worker) -> list[Finding]:
    """Judge the connectors of a worker, or of its group, by what it says of them."""
    try:
        found = worker.ask("GET", "/connectors?expand=status")
    except OttlaError as error:
        remedy = "start it, or name another; a login goes into the address: http://name:password@host:8083"
        return [fail(CHECK, f"{worker.url} does not answer: {error}", remedy)]
    statuses = [each["status"] for each in found.values() if "status" in each]
    return judged_connectors(worker.url, statuses)


def judged_connectors(url: str, statuses: list[dict[str, Any]]) -> list[Finding]:
    """Return what is wrong with connectors, of which the statuses are given; or that nothing is."""
    failed = [each["name"] for each in statuses if _failed(each)]
    found = []
    if failed:
        said = f"{len(failed)} connectors have failed at {url}: {named(failed)}"
        found.append(
            fail(CHECK, said, "`ottla connect describe NAME` has the trace, `ottla connect restart NAME` tries again")
        )
    for status in statuses:
        for each in status.get("progress", ()):
            if each.get("stalled"):
                said = f"task {each['task']} of {status['name']} is RUNNING and does nothing: {each['stalled']}"
                found.append(warning(CHECK, said, "look into the worker's log, and at its source or target"))
            found += [
                warning(CHECK, f"task {each['task']} of {status['name']}: {said}", "see what its status says of it")
                for said in each.get("warnings", ())
            ]
    return found or [ok(CHECK, f"{len(statuses)} connectors at {url}: none has failed, and none stands still")]


def _failed(status: dict[str, Any]) -> bool:
    return any(each["state"] == "FAILED" for each in (status["connector"], *status["tasks"]))
