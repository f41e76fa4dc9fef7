"""Every address of the interface, and what is answered there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla import __version__
from ottla.http import Who
from ottla.registry.authorization import DENIED, Right
from ottla.registry.core import (
    RegistryError,
    StoredSchema,
    Wanted,
    compared,
    config_answer,
    delete_config,
    delete_context,
    delete_mode,
    delete_subject,
    delete_version,
    level_of,
    look_up,
    mode_answer,
    reference_json,
    register,
    registered,
    set_config,
    set_mode,
)
from ottla.registry.core.errors import schema_not_found
from ottla.registry.core.lookups import (
    by_guid,
    by_id,
    latest_with_metadata,
    listed_contexts,
    listed_schemas,
    listed_subjects,
    referring,
    using,
    version_number,
    version_of,
    versions_of,
)
from ottla.registry.core.names import DEFAULT_CONTEXT, Subject, checked, context_name
from ottla.registry.core.records import AVRO
from ottla.registry.rest.asked import Asked
from ottla.registry.rest.bodies import metadata_of, rule_set_of, wanted_of
from ottla.registry.rest.declaration import ONCE, Endpoint
from ottla.registry.service import Registry

__all__ = ["NOTHING", "Endpoints", "Raw"]

REQUEST = "RegisterSchemaRequest"
WHOSE_SETTINGS = (
    ("/{subject}", "a subject's", Right.SUBJECT_COMPATIBILITY_READ, Right.SUBJECT_COMPATIBILITY_WRITE),
    ("", "the global", Right.GLOBAL_COMPATIBILITY_READ, Right.GLOBAL_COMPATIBILITY_WRITE),
)
"""Addresses of configurations and modes: below which path, whose they are, and the rights to read and to change one."""


@dataclass(frozen=True)
class Raw:
    """A schema's own text as the whole answer."""

    text: str


class _Nothing:
    """An answer without a body (204)."""


NOTHING = _Nothing()


def _readable(asked: Asked, schemas: list[StoredSchema]) -> list[StoredSchema]:
    """Return those versions whose subjects the caller may read."""
    if asked.caller.authorizer is None:
        return schemas
    subjects = set(asked.caller.readable({each.subject for each in schemas}))
    return [each for each in schemas if each.subject in subjects]


def _refuse_unreadable(asked: Asked, schemas: list[StoredSchema], what: str) -> None:
    """Raise RegistryError 40301 where the caller may read none of the subjects that have a schema."""
    if schemas and not _readable(asked, schemas):
        raise RegistryError(DENIED, f"User is denied operation {Right.SUBJECT_READ} on every subject of {what}")


class Endpoints:
    """All endpoints of an instance."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._settings = registry.settings

    def all(self) -> list[Endpoint]:
        """Return them."""
        return [*self._roots_and_subjects(), *self._version_endpoints(), *self._schema_endpoints(), *self._others()]

    def _roots_and_subjects(self) -> list[Endpoint]:
        return [
            Endpoint("GET", "/", "Say that it is there.", self._root, Who.LOGGED_IN),
            Endpoint("POST", "/", "Say that it is there.", self._root, Who.LOGGED_IN),
            Endpoint(
                "GET",
                "/subjects",
                "List the subjects.",
                self._subjects,
                Who.LOGGED_IN,
                query=("subjectPrefix", "deleted", "deletedOnly", "offset", "limit"),
                answer="Texts",
            ),
            Endpoint(
                "POST",
                "/subjects/{subject}",
                "Look a schema up under a subject.",
                self._look_up,
                Who.LOGGED_IN,
                right=Right.SUBJECT_READ,
                query=("normalize", "format", "deleted"),
                body="SchemaRequest",
                answer="Schema",
            ),
            Endpoint(
                "DELETE",
                "/subjects/{subject}",
                "Delete a subject.",
                self._delete_subject,
                Who.LOGGED_IN,
                right=Right.SUBJECT_DELETE,
                query=("permanent",),
                answer="Numbers",
                changes=True,
            ),
            Endpoint(
                "GET",
                "/subjects/{subject}/metadata",
                "Find a version by its metadata.",
                self._with_metadata,
                Who.LOGGED_IN,
                right=Right.SUBJECT_READ,
                query=("key", "value", "format", "deleted"),
                answer="Schema",
            ),
        ]

    def _version_endpoints(self) -> list[Endpoint]:
        versions = "/subjects/{subject}/versions"
        return [
            Endpoint(
                "GET",
                versions,
                "List the versions of a subject.",
                self._versions,
                Who.LOGGED_IN,
                right=Right.SUBJECT_READ,
                query=("deleted", "deletedOnly", "deletedAsNegative", "offset", "limit"),
                answer="Numbers",
            ),
            Endpoint(
                "POST",
                versions,
                "Register a schema under a subject.",
                self._register,
                Who.LOGGED_IN,
                right=Right.SUBJECT_WRITE,
                query=("normalize", "force"),
                body="SchemaRequest",
                answer="Registered",
                changes=True,
            ),
            Endpoint(
                "GET",
                versions + "/{version}",
                "Show a version.",
                self._version,
                Who.LOGGED_IN,
                right=Right.SUBJECT_READ,
                query=("format", "deleted"),
                answer="Schema",
            ),
            Endpoint(
                "DELETE",
                versions + "/{version}",
                "Delete a version.",
                self._delete_version,
                Who.LOGGED_IN,
                right=Right.SUBJECT_DELETE,
                query=("permanent",),
                answer="Number",
                changes=True,
            ),
            Endpoint(
                "GET",
                versions + "/{version}/schema",
                "Show a version's schema alone.",
                self._version_text,
                Who.LOGGED_IN,
                right=Right.SUBJECT_READ,
                query=("format", "deleted"),
            ),
            Endpoint(
                "GET",
                versions + "/{version}/referencedby",
                "List who refers to a version.",
                self._referenced_by,
                Who.LOGGED_IN,
                right=Right.SUBJECT_READ,
                query=("deleted", "offset", "limit"),
                answer="Numbers",
            ),
        ]

    def _schema_endpoints(self) -> list[Endpoint]:
        ids = "/schemas/ids/{id}"
        return [
            Endpoint(
                "GET",
                "/schemas",
                "List the schemas.",
                self._schemas,
                Who.LOGGED_IN,
                query=("subjectPrefix", "deleted", "latestOnly", "ruleType", "offset", "limit"),
                answer="Schemas",
            ),
            Endpoint("GET", "/schemas/types", "List the formats.", self._types, Who.LOGGED_IN, answer="Texts"),
            Endpoint(
                "GET",
                ids,
                "Show the schema with an id.",
                self._by_id,
                Who.LOGGED_IN,
                query=("subject", "format", "fetchMaxId"),
                answer="SchemaOfId",
            ),
            Endpoint(
                "GET",
                ids + "/schema",
                "Show the schema with an id alone.",
                self._id_text,
                Who.LOGGED_IN,
                query=("subject", "format"),
            ),
            Endpoint(
                "GET",
                ids + "/subjects",
                "List the subjects that have an id.",
                self._id_subjects,
                Who.LOGGED_IN,
                query=("subject", "deleted", "offset", "limit"),
                answer="Texts",
            ),
            Endpoint(
                "GET",
                ids + "/versions",
                "List the versions that have an id.",
                self._id_versions,
                Who.LOGGED_IN,
                query=("subject", "deleted", "offset", "limit"),
                answer="SubjectVersions",
            ),
            Endpoint(
                "GET",
                "/schemas/guids/{guid}",
                "Show the schema with a GUID.",
                self._by_guid,
                Who.LOGGED_IN,
                query=("format",),
                answer="SchemaOfId",
            ),
            Endpoint(
                "GET",
                "/schemas/guids/{guid}/ids",
                "List the ids of a GUID.",
                self._guid_ids,
                Who.LOGGED_IN,
                answer="ContextIds",
            ),
        ]

    def _others(self) -> list[Endpoint]:
        everything = Right.GLOBAL_COMPATIBILITY_WRITE
        return [
            *self._setting_endpoints(),
            Endpoint(
                "POST",
                "/compatibility/subjects/{subject}/versions/{version}",
                "Check whether a schema fits a version.",
                self._fits_version,
                Who.LOGGED_IN,
                right=Right.SUBJECT_COMPATIBILITY_READ,
                query=("normalize", "verbose"),
                body="SchemaRequest",
                answer="Compatible",
            ),
            Endpoint(
                "POST",
                "/compatibility/subjects/{subject}/versions",
                "Check whether a schema may be the next version.",
                self._fits_all,
                Who.LOGGED_IN,
                right=Right.SUBJECT_COMPATIBILITY_READ,
                query=("normalize", "verbose"),
                body="SchemaRequest",
                answer="Compatible",
            ),
            Endpoint(
                "GET",
                "/contexts",
                "List the contexts.",
                self._contexts,
                Who.LOGGED_IN,
                tags=ONCE,
                query=("offset", "limit"),
                answer="Texts",
            ),
            Endpoint(
                "DELETE",
                "/contexts/{context}",
                "Delete an empty context.",
                self._delete_context,
                Who.LOGGED_IN,
                right=everything,
                tags=ONCE,
                statuses=(204,),
                changes=True,
            ),
            Endpoint("GET", "/v1/metadata/id", "Name the cluster.", self._cluster, Who.LOGGED_IN, tags=ONCE),
            Endpoint(
                "GET", "/v1/metadata/version", "Name the version.", self._server_version, Who.LOGGED_IN, tags=ONCE
            ),
            Endpoint(
                "GET", "/v1/metadata/deployment", "Describe the deployment.", self._deployment, Who.LOGGED_IN, tags=ONCE
            ),
        ]

    def _setting_endpoints(self) -> list[Endpoint]:
        found = []
        for path, whose, reads, writes in WHOSE_SETTINGS:
            found += [
                Endpoint(
                    "GET",
                    f"/config{path}",
                    f"Show {whose} configuration.",
                    self._config,
                    Who.LOGGED_IN,
                    right=reads,
                    query=("defaultToGlobal",),
                    answer="Config",
                ),
                Endpoint(
                    "PUT",
                    f"/config{path}",
                    f"Change {whose} configuration.",
                    self._set_config,
                    Who.LOGGED_IN,
                    right=writes,
                    body="ConfigChange",
                    answer="ConfigAnswer",
                    changes=True,
                ),
                Endpoint(
                    "DELETE",
                    f"/config{path}",
                    f"Remove {whose} configuration.",
                    self._delete_config,
                    Who.LOGGED_IN,
                    right=writes,
                    changes=True,
                ),
                Endpoint(
                    "GET",
                    f"/mode{path}",
                    f"Show {whose} mode.",
                    self._mode,
                    Who.LOGGED_IN,
                    right=reads,
                    query=("defaultToGlobal",),
                    answer="Mode",
                ),
                Endpoint(
                    "PUT",
                    f"/mode{path}",
                    f"Set {whose} mode.",
                    self._set_mode,
                    Who.LOGGED_IN,
                    right=Right.GLOBAL_COMPATIBILITY_WRITE,
                    query=("force",),
                    body="ModeChange",
                    answer="Mode",
                    changes=True,
                ),
                Endpoint(
                    "DELETE",
                    f"/mode{path}",
                    f"Remove {whose} mode.",
                    self._delete_mode,
                    Who.LOGGED_IN,
                    right=Right.GLOBAL_COMPATIBILITY_WRITE,
                    query=("recursive",),
                    answer="Mode",
                    changes=True,
                ),
            ]
        return found

    # What a schema looks like

    async def _shown(self, asked: Asked, schema: StoredSchema) -> dict[str, Any]:
        found: dict[str, Any] = {"subject": schema.subject, "version": schema.version, "id": schema.id}
        found |= self._details(asked, schema)
        found["schema"] = await self._registry.formatted(schema, asked.text("format"))
        if schema.deleted and asked.takes_more:
            found["deleted"] = True
        return found

    @staticmethod
    def _details(asked: Asked, schema: StoredSchema) -> dict[str, Any]:
        found: dict[str, Any] = {"guid": schema.guid} if asked.takes_more else {}
        if schema.schema_type != AVRO:
            found["schemaType"] = schema.schema_type
        if schema.references:
            found["references"] = [reference_json(each) for each in schema.references]
        if schema.metadata is not None:
            found["metadata"] = schema.metadata
        if schema.rule_set is not None:
            found["ruleSet"] = schema.rule_set
        return found

    # Subjects and versions

    async def _root(self, asked: Asked) -> Any:
        return {}

    async def _subjects(self, asked: Asked) -> Any:
        found = listed_subjects(
            asked.state, asked.prefix(), deleted=asked.flag("deleted"), deleted_only=asked.flag("deletedOnly")
        )
        return asked.page().of(asked.caller.readable(found))

    async def _versions(self, asked: Asked) -> Any:
        found = versions_of(
            asked.state,
            asked.subject(),
            deleted=asked.flag("deleted"),
            deleted_only=asked.flag("deletedOnly"),
            negative=asked.flag("deletedAsNegative"),
        )
        return asked.page().of(found)

    def _asked_version(self, asked: Asked) -> StoredSchema:
        number = version_number(asked.path("version"))
        return version_of(asked.state, asked.subject(), number, deleted=asked.flag("deleted"))

    async def _version(self, asked: Asked) -> Any:
        return await self._shown(asked, self._asked_version(asked))

    async def _version_text(self, asked: Asked) -> Any:
        return Raw(await self._registry.formatted(self._asked_version(asked), asked.text("format")))

    async def _referenced_by(self, asked: Asked) -> Any:
        number = version_number(asked.path("version"))
        schema = version_of(asked.state, asked.subject(), number, deleted=True)
        found = referring(asked.state, schema.subject, schema.version, deleted=asked.flag("deleted"))
        return asked.page().of(sorted({each.id for each in _readable(asked, found)}))

    async def _with_metadata(self, asked: Asked) -> Any:
        wanted = dict(zip(asked.texts("key"), asked.texts("value"), strict=False))
        found = latest_with_metadata(asked.state, asked.subject(), wanted, deleted=asked.flag("deleted"))
        return await self._shown(asked, found)

    @staticmethod
    def _wanted(asked: Asked, subject: str, body: dict[str, Any]) -> Wanted:
        """Return a body's schema; raises RegistryError where it refers to what the caller may not read."""
        wanted = wanted_of(body)
        home = Subject.of(subject)
        for each in wanted.references:
            asked.caller.check(Right.SUBJECT_READ, home.beside(each.subject))
        return wanted

    async def _look_up(self, asked: Asked) -> Any:
        subject, body = asked.subject(), asked.body(REQUEST)
        wanted = self._wanted(asked, subject, body)
        deleted = asked.flag("deleted")
        versions_of(asked.state, subject, deleted=deleted)  # a subject that is not there is said first
        wanted = await self._registry.canonical(subject, wanted, normalize=asked.flag("normalize"))
        return await self._shown(asked, look_up(asked.state, subject, wanted, deleted=deleted))

    async def _register(self, asked: Asked) -> Any:
        registry, subject = self._registry, checked(asked.subject())
        wanted = self._wanted(asked, subject, asked.body(REQUEST))
        wanted = await registry.canonical(subject, wanted, normalize=asked.flag("normalize"))
        found = registered(asked.state, subject, wanted)
        if found is None or wanted.id not in (None, found.id) or asked.state.modes:
            level, force = self._settings.level, asked.flag("force")
            found = await registry.change(
                lambda state: register(state, subject, wanted, default_level=level, force=force), is_repeatable=True
            )
        assert found is not None
        if not asked.takes_more:
            return {"id": found.id}
        # Not the text: clients would keep it in the place of the form that they have sent, and Protobuf's read that one.
        return {"id": found.id, "version": found.version, "guid": found.guid}

    async def _delete_subject(self, asked: Asked) -> Any:
        subject, permanent = asked.subject(), asked.flag("permanent")
        return await self._registry.change(lambda state: delete_subject(state, subject, permanent=permanent))

    async def _delete_version(self, asked: Asked) -> Any:
        subject, permanent = asked.subject(), asked.flag("permanent")
        number = version_number(asked.path("version"))
        return await self._registry.change(lambda state: delete_version(state, subject, number, permanent=permanent))

    # Schemas by id

    async def _schemas(self, asked: Asked) -> Any:
        found = listed_schemas(
            asked.state,
            asked.prefix(),
            deleted=asked.flag("deleted"),
            latest_only=asked.flag("latestOnly"),
            rule_type=asked.text("ruleType"),
        )
        found = _readable(asked, found)
        return [await self._shown(asked, each) for each in asked.page().of(found, self._settings.search_limit)]

    async def _types(self, asked: Asked) -> Any:
        return ["JSON", "PROTOBUF", "AVRO"]

    async def _with_id(self, asked: Asked) -> StoredSchema:
        """Return the schema with the path's id; one that is not known yet may have been registered a moment ago."""
        text = asked.path("id")
        if not text.isascii() or not text.isdigit() or len(text) > 10:
            raise RegistryError(404, "HTTP 404 Not Found")
        try:
            found = by_id(asked.state, int(text), asked.hint())
        except RegistryError:
            await self._registry.store.glance()
            found = by_id(asked.state, int(text), asked.hint())
        if (
            asked.caller.authorizer is not None
        ):  # whoever may read one of the subjects that have an id may read the schema
            users = asked.state.users(Subject.of(found.subject).context, found.id)
            _refuse_unreadable(asked, users, f"id {found.id}")
        return found

    async def _by_id(self, asked: Asked) -> Any:
        schema = await self._with_id(asked)
        found: dict[str, Any] = {"schema": await self._registry.formatted(schema, asked.text("format"))}
        found |= self._details(asked, schema)
        if asked.flag("fetchMaxId"):
            found["maxId"] = asked.state.max_ids[Subject.of(schema.subject).context]
        return found

    async def _id_text(self, asked: Asked) -> Any:
        return Raw(await self._registry.formatted(await self._with_id(asked), asked.text("format")))

    async def _id_users(self, asked: Asked) -> list[StoredSchema]:
        try:
            schema = await self._with_id(asked)
        except RegistryError as error:
            raise schema_not_found() if error.code == 40403 else error from None
        return _readable(asked, using(asked.state, schema.id, asked.hint(), deleted=asked.flag("deleted")))

    async def _id_subjects(self, asked: Asked) -> Any:
        found = await self._id_users(asked)
        return asked.page().of(list(dict.fromkeys(each.subject for each in found)))

    async def _id_versions(self, asked: Asked) -> Any:
        found = await self._id_users(asked)
        return asked.page().of([{"subject": each.subject, "version": each.version} for each in found])

    async def _with_guid(self, asked: Asked) -> list[StoredSchema]:
        guid = asked.path("guid")
        try:
            found = by_guid(asked.state, guid)
        except RegistryError:
            await self._registry.store.glance()
            found = by_guid(asked.state, guid)
        _refuse_unreadable(asked, found, f"GUID {guid}")
        return _readable(asked, found)

    async def _by_guid(self, asked: Asked) -> Any:
        schema = (await self._with_guid(asked))[0]
        text = await self._registry.formatted(schema, asked.text("format"))
        return {"schema": text, **self._details(asked, schema)}

    async def _guid_ids(self, asked: Asked) -> Any:
        pairs = {(Subject.of(each.subject).context, each.id) for each in await self._with_guid(asked)}
        return [{"context": context, "id": schema_id} for context, schema_id in sorted(pairs)]

    # Configurations and modes

    async def _config(self, asked: Asked) -> Any:
        falls_back = asked.flag("defaultToGlobal") or "subject" not in asked.request.match_info
        return config_answer(asked.state, asked.scope(), self._settings.level, falls_back=falls_back)

    async def _set_config(self, asked: Asked) -> Any:
        scope, body = asked.scope(), asked.body("ConfigUpdateRequest")
        for key in ("defaultMetadata", "overrideMetadata"):
            if body.get(key) is not None:
                body[key] = metadata_of(body[key])
        for key in ("defaultRuleSet", "overrideRuleSet"):
            if body.get(key) is not None:
                body[key] = rule_set_of(body[key])
        return await self._registry.change(lambda state: set_config(state, scope, body), is_repeatable=True)

    async def _delete_config(self, asked: Asked) -> Any:
        scope, level = asked.scope(), self._settings.level
        return await self._registry.change(lambda state: delete_config(state, scope, level))

    async def _mode(self, asked: Asked) -> Any:
        falls_back = asked.flag("defaultToGlobal") or "subject" not in asked.request.match_info
        return mode_answer(asked.state, asked.scope(), falls_back=falls_back)

    async def _set_mode(self, asked: Asked) -> Any:
        scope, mode, force = asked.scope(), asked.body("ModeUpdateRequest").get("mode"), asked.flag("force")
        mutable = self._settings.is_mutable
        return await self._registry.change(
            lambda state: set_mode(state, scope, mode, is_mutable=mutable, force=force), is_repeatable=True
        )

    async def _delete_mode(self, asked: Asked) -> Any:
        scope, mutable, recursive = asked.scope(), self._settings.is_mutable, asked.flag("recursive")
        return await self._registry.change(
            lambda state: delete_mode(state, scope, is_mutable=mutable, recursive=recursive)
        )

    # Compatibility

    async def _fits_version(self, asked: Asked) -> Any:
        subject, number = asked.subject(), version_number(asked.path("version"))
        wanted = self._wanted(asked, subject, asked.body(REQUEST))
        return await self._fits(asked, wanted, [version_of(asked.state, subject, number)])

    async def _fits_all(self, asked: Asked) -> Any:
        return await self._fits(asked, self._wanted(asked, asked.subject(), asked.body(REQUEST)), None)

    async def _fits(self, asked: Asked, wanted: Any, older: list[StoredSchema] | None) -> Any:
        registry, subject = self._registry, checked(asked.subject())
        try:
            wanted = await registry.canonical(subject, wanted, normalize=asked.flag("normalize"))
            new = StoredSchema(
                *(subject, 0, 0, wanted.text, wanted.schema_type, wanted.references),
                *(wanted.metadata, wanted.rule_set),
            )
            level = level_of(asked.state, subject, self._settings.level)
            versions = compared(asked.state, subject, new) if older is None else older
            messages = await registry.differences(level, new, versions) if versions else []
        except RegistryError as error:
            if error.code != 42201 or not asked.flag("verbose"):
                raise
            messages = [error.message]
        return {"is_compatible": not messages, **({"messages": messages} if asked.flag("verbose") else {})}

    # The rest

    async def _contexts(self, asked: Asked) -> Any:
        found = listed_contexts(asked.state, asked.text("contextPrefix"))
        if asked.caller.authorizer is not None:
            readable = asked.caller.readable(map(str, asked.state.subjects()))
            seen = {DEFAULT_CONTEXT, *(Subject.of(each).context for each in readable)}
            found = [each for each in found if each in seen]
        return asked.page().of(found)

    async def _delete_context(self, asked: Asked) -> Any:
        name = context_name(asked.path("context"))
        await self._registry.change(lambda state: delete_context(state, name))
        return NOTHING

    async def _cluster(self, asked: Asked) -> Any:
        clusters = {"kafka-cluster": self._registry.cluster_id, "schema-registry-cluster": self._settings.group}
        return {"id": "", "scope": {"path": [], "clusters": clusters}}

    async def _server_version(self, asked: Asked) -> Any:
        return {"version": __version__, "commitId": ""}

    async def _deployment(self, asked: Asked) -> Any:
        return {"attributes": {}}
