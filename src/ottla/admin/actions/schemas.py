"""A schema registry's subjects, by its REST interface: registered, deleted, and what their next versions may be."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ottla.admin.actions.plan import ActionPlan, Arguments, Difference, Planner, Reach, Undo, command, number, text
from ottla.admin.errors import AdminError
from ottla.admin.rest import RestError, Worker

__all__ = ["SCHEMAS", "compatibility_messages"]

TYPES = ("AVRO", "JSON", "PROTOBUF")
LEVELS = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
NOT_THERE = 404


def _subject(name: str) -> str:
    return quote(name, safe="", errors="replace")


def _found(registry: Worker, path: str) -> Any | None:
    try:
        return registry.ask("GET", path)
    except RestError as error:
        if error.status == NOT_THERE:
            return None
        raise


def _asked(arguments: Arguments) -> dict[str, Any]:
    kind = str(arguments.get("schema_type") or "AVRO")
    if kind not in TYPES:
        raise AdminError(f"schema_type is one of {', '.join(TYPES)}")
    body: dict[str, Any] = {"schema": text(arguments, "schema"), "schemaType": kind}
    references = arguments.get("references")
    if references is not None:
        if not isinstance(references, list) or not all(isinstance(each, Mapping) for each in references):
            raise AdminError("references is a list of objects with name, subject and version")
        body["references"] = [dict(each) for each in references]
    return body


def compatibility_messages(registry: Worker, subject: str, body: Mapping[str, Any]) -> list[str]:
    """Return why a schema may not be a subject's next version; empty where it may. Raises RestError."""
    try:
        path = f"/compatibility/subjects/{_subject(subject)}/versions?verbose=true"
        found = registry.ask("POST", path, dict(body))
    except RestError as error:
        if error.status == NOT_THERE:
            return []  # the first version may be anything
        raise
    return [] if found["is_compatible"] else [str(each) for each in found.get("messages") or ["It is not compatible."]]


def _register(reach: Reach, arguments: Arguments) -> ActionPlan:
    registry, subject, body = reach.schemas(), text(arguments, "subject"), _asked(arguments)
    latest = _found(registry, f"/subjects/{_subject(subject)}/versions/latest")
    try:
        known = registry.ask("POST", f"/subjects/{_subject(subject)}", body)
    except RestError as error:
        if error.status != NOT_THERE:
            raise
        known = None
    wrong = compatibility_messages(registry, subject, body)
    if wrong:
        raise AdminError("It may not follow:\n" + "\n".join(wrong[:20]))
    version = 1 if latest is None else int(latest["version"]) + 1
    differences = (
        ()
        if known is not None
        else (
            Difference(
                f"subject {subject}/version {version}", None if latest is None else latest["schema"], body["schema"]
            ),
        )
    )
    suffix = {"AVRO": "avsc", "JSON": "json", "PROTOBUF": "proto"}[body["schemaType"]]
    words = command("registry", "register", subject, f"schema.{suffix}", "--type", body["schemaType"])
    return ActionPlan(
        "register-schema",
        dict(arguments),
        differences,
        f"printf %s {shlex.quote(body['schema'])} > schema.{suffix}; {words}",
        effects=("Writers may use it at once; what is written already stays as it is.",),
        warnings=() if known is None else (f"It is there already: version {known['version']}, id {known['id']}.",),
        run=lambda each: each.schemas().ask("POST", f"/subjects/{_subject(subject)}/versions", body),
    )


def _delete(reach: Reach, arguments: Arguments) -> ActionPlan:
    registry, subject, version = reach.schemas(), text(arguments, "subject"), number(arguments, "version")
    permanent = arguments.get("permanent") is True
    query = "?deleted=true" if permanent else ""
    versions = _found(registry, f"/subjects/{_subject(subject)}/versions{query}")
    if versions is None or (version is not None and version not in versions):
        raise AdminError(
            f"There is no subject {subject}" if versions is None else f"{subject} has no version {version}"
        )
    gone = versions if version is None else [version]
    path = f"/subjects/{_subject(subject)}" + ("" if version is None else f"/versions/{version}")
    words = ["registry", "delete", subject, *([] if version is None else ["--version", str(version)])]
    words += ["--permanent"] if permanent else []
    return ActionPlan(
        "delete-schema",
        dict(arguments),
        tuple(
            Difference(
                f"subject {subject}/version {each}",
                "deleted" if permanent else "there",
                None if permanent else "deleted",
            )
            for each in gone
        ),
        command(*words),
        effects=(
            "Records that name them can never be read by them again."
            if permanent
            else "Readers of records that name them still get them; writers do not.",
        ),
        warnings=("A subject is deleted for good only after it has been deleted as such.",) if permanent else (),
        typed=subject if permanent or version is None else None,
        run=lambda each: each.schemas().ask("DELETE", path + ("?permanent=true" if permanent else "")),
    )


def _level(reach: Reach, arguments: Arguments) -> ActionPlan:
    return _set(reach, arguments, "config", "compatibility", LEVELS, "registry-level")


def _mode(reach: Reach, arguments: Arguments) -> ActionPlan:
    return _set(reach, arguments, "mode", "mode", MODES, "registry-mode")


def _set(reach: Reach, arguments: Arguments, what: str, name: str, known: tuple[str, ...], action: str) -> ActionPlan:
    """Set, or drop where it is None, a level or a mode of one subject or of all."""
    registry, wanted = reach.schemas(), arguments.get(name)
    subject = str(arguments.get("subject") or "")
    if wanted is not None and wanted not in known:
        raise AdminError(f"{name} is one of {', '.join(known)}")
    if wanted is None and not subject:
        raise AdminError(f"{name} is needed: what holds for all subjects cannot be dropped")
    path = f"/{what}/{_subject(subject)}" if subject else f"/{what}"
    found = _found(registry, path)
    before = None if found is None else found.get("compatibilityLevel") or found.get("mode")
    whom = f"subject {subject}" if subject else "all subjects"
    words = [f"subject={subject}"] if subject else []
    cli = command("plan", action, *words, f"{name}={wanted or 'null'}", "--schema-registry", registry.url)

    def run(each: Reach) -> None:
        if wanted is None:
            each.schemas().ask("DELETE", path)
        else:
            each.schemas().ask("PUT", path, {name: wanted})

    return ActionPlan(
        action,
        dict(arguments),
        (Difference(f"{whom}/{name}", before, wanted),) if before != wanted else (),
        cli,
        effects=("It is asked of the next version that is registered; versions that are there stay.",)
        if what == "config"
        else ("It holds for what is registered from now on.",),
        warnings=() if before != wanted else ("It is so already.",),
        undo=Undo(action, {"subject": subject, name: before}) if before is not None or subject else None,
        run=run,
    )


SCHEMAS: Mapping[str, Planner] = {
    "register-schema": _register,
    "delete-schema": _delete,
    "registry-level": _level,
    "registry-mode": _mode,
}
