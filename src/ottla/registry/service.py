"""`Registry`: one instance. It follows the schemas' topic, answers from memory, and writes where it is the primary."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ottla.background import end, keep_running, supervise
from ottla.base import OttlaError
from ottla.client import Client, Limits, client_network
from ottla.registry.authorization import Authorization
from ottla.registry.core import Decision, RegistryError, State, StoredSchema, Wanted, config_of
from ottla.registry.core.errors import incompatible, invalid_schema, store_failed, timed_out
from ottla.registry.core.lookups import referenced_texts, stored_alike
from ottla.registry.core.names import Subject
from ottla.registry.core.settings import LEVELS
from ottla.registry.election import election_of
from ottla.registry.examining import Examiner, Text, canonical_question, comparison_question, form_question
from ottla.registry.identities import Identity
from ottla.registry.settings import RegistrySettings
from ottla.registry.store import FencedError, Store
from ottla.schemas import SchemaReference, SchemaType
from ottla.security import StandardAuthorizer
from ottla.service import Office

__all__ = ["ElsewhereError", "Registry"]

log = logging.getLogger(__name__)
TRIES = 50
"""How often a decision is taken anew because others were quicker."""
SHOWN_CHARS_MAX = 10_000
"""Of a schema that an error repeats."""
CLIENT_LIMITS = Limits(unreachable_s=5.0, backoff_s=0.02, call_s=30.0)


class ElsewhereError(OttlaError):
    """Only the primary does this, and this instance is not the primary."""


class Registry:
    """Follows, answers and writes; `start` and `lead` begin it, `leave` and `close` end it."""

    def __init__(self, settings: RegistrySettings, examiner: Examiner | None = None) -> None:
        self.settings = settings
        self.store = Store(settings, self._client, replaced=self._resign)
        self.examiner = examiner if examiner is not None else Examiner()
        self.cluster_id = ""
        self.identity: Identity | None = None
        """Where this instance answers, from `lead` on."""
        self._election: Office[Identity] | None = None
        access = settings.access
        self._authorization = Authorization(self._client, access.super_users) if access.is_authorized else None
        self._turn = asyncio.Lock()
        self._warming: asyncio.Task[None] | None = None
        self._resigning: asyncio.Task[None] | None = None

    def _client(self, purpose: str) -> Client:
        return Client(
            self.settings.bootstrap,
            client_id=f"schema-registry-{purpose}",
            limits=CLIENT_LIMITS,
            network=client_network(self.settings.store_properties),
        )

    @property
    def state(self) -> State:
        """What the log says."""
        return self.store.state

    @property
    def authorizer(self) -> StandardAuthorizer | None:
        """What says who may use which subject; None where everybody may use all of them."""
        return None if self._authorization is None else self._authorization.authorizer

    @property
    def election(self) -> Office[Identity]:
        """The primary's office."""
        assert self._election is not None, "lead() comes first"
        return self._election

    # Its life

    async def start(self) -> None:
        """Read the schemas; raises ConfigError, KafkaError or RegistryError."""
        try:
            async with asyncio.timeout(self.settings.init_timeout_s):
                if self._authorization is not None:
                    await self._authorization.start()
                await self.store.start()
                async with self._client("start") as client:
                    self.cluster_id = (await client.metadata([])).cluster_id or ""
        except TimeoutError as error:
            seconds = self.settings.init_timeout_s
            raise timed_out(f"The schemas' topic {self.settings.topic} was not read within {seconds:g} s") from error

    def lead(self, identity: Identity) -> None:
        """Take part in the group as the instance that answers there."""
        self.identity = identity
        self._election = election_of(
            self.settings,
            identity,
            self._client("group"),
            take=self.store.claim,
            leave=self.store.release,
        )
        self._election.start()
        self._warming = keep_running(self.examiner.warm, name="warm the examiner", serves="the first schemas")

    async def leave(self) -> None:
        """Leave the group, so that another one becomes the primary at once."""
        if self._resigning is not None:
            await self._resigning
        elif self._election is not None:
            await self._election.close()

    def _resign(self) -> None:
        """Leave to others what this instance cannot do: its schemas are not those of the topic."""
        if self._election is not None and self._resigning is None:
            self._resigning = supervise(self._election.close(), name="resign", serves="the registry's group")

    async def close(self) -> None:
        """Follow the log no more."""
        if self._authorization is not None:
            await self._authorization.close()
        await self.store.close()
        await end(self._warming)
        await self.examiner.close()

    # Writing

    async def change(self, decide: Callable[[State], Decision], *, is_repeatable: bool = False) -> Any:
        """Carry a decision out, and return its answer.

        Raises ElsewhereError where another one has to, RegistryError for what cannot be done. What is repeatable, as it does
        nothing where it is done already, is tried again where nobody knows whether it was.
        """
        if self.store.lost:
            raise store_failed(self.store.lost)
        if not self.election.is_held:
            raise ElsewhereError("this instance is not the primary")
        repeats = 1 if is_repeatable else 0
        for _ in range(TRIES):
            decision = decide(self.state)
            if not decision.records:
                return decision.answer
            await self._refuse_incompatible(decision)
            async with self._turn:
                await self._claim_again()
                if decide(self.state) != decision:
                    continue
                try:
                    await self.store.write(decision.records)
                except FencedError as error:
                    self.election.step_down(str(error))
                    raise ElsewhereError(str(error)) from error
                except RegistryError as error:
                    if not repeats or error.status < 500:
                        raise
                    repeats -= 1
                    continue
                return decision.answer
        raise timed_out("Others were quicker again and again")

    async def _claim_again(self) -> None:
        """Claim the topic anew where a write before has failed without being fenced; raises RegistryError."""
        if self.store.is_claimed:
            return
        if not self.election.is_held:
            raise ElsewhereError("this instance is not the primary")
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                await self.store.claim()
        except TimeoutError as error:
            raise timed_out("Taking over the schemas' topic again timed out") from error
        except OttlaError as error:
            self.election.step_down(str(error))
            raise ElsewhereError(str(error)) from error

    async def _refuse_incompatible(self, decision: Decision) -> None:
        if decision.new is not None and decision.older:
            messages = await self.differences(decision.level, decision.new, decision.older)
            if messages:
                raise incompatible(decision.new.subject, f"[{', '.join(messages)}]")

    # Schemas

    async def canonical(self, subject: str, wanted: Wanted, *, normalize: bool) -> Wanted:
        """Return a schema in its canonical text, with its references' versions; raises RegistryError 42201."""
        if wanted.schema_type not in list(SchemaType):
            raise invalid_schema(f"Invalid schema type {wanted.schema_type}")
        if not wanted.text.strip():
            raise invalid_schema("Empty schema")
        normalize = normalize or config_of(self.state, subject).get("normalize") is True
        if not normalize and (found := stored_alike(self.state, subject, wanted)) is not None:
            return replace(wanted, references=found.references)
        try:
            settled, text = self._text(subject, wanted.text, wanted.schema_type, wanted.references, is_new=True)
            canonical = await self.examiner.ask(canonical_question(text, normalize=normalize))
        except RegistryError as error:
            if error.code != 42201:
                raise
            raise invalid_schema(_invalid(subject, wanted, error.message)) from error
        return replace(wanted, text=str(canonical), references=settled)

    async def formatted(self, schema: StoredSchema, form: str) -> str:
        """Return a stored schema's text in a form; its own where none is asked for."""
        if not form or form == "default":
            return schema.text
        return str(await self.examiner.ask(form_question(self._stored(schema), form)))

    async def differences(self, level: str, new: StoredSchema, older: Sequence[StoredSchema]) -> list[str]:
        """Return why a schema must not follow others (the oldest first) at a level, nothing where it may."""
        assert level in LEVELS
        compared = older if level.endswith("_TRANSITIVE") else older[-1:]
        versions = [(each.version, self._stored(each)) for each in compared]
        messages = await self.examiner.ask(comparison_question(level, self._stored(new), versions))
        return [*messages, f"{{validateFields: 'false', compatibility: '{level}'}}"] if messages else []

    def _stored(self, schema: StoredSchema) -> Text:
        return self._text(schema.subject, schema.text, schema.schema_type, schema.references)[1]

    def _text(
        self,
        subject: str,
        text: str,
        schema_type: str,
        references: Iterable[SchemaReference],
        *,
        is_new: bool = False,
    ) -> tuple[tuple[SchemaReference, ...], Text]:
        settled, found = referenced_texts(self.state, subject, references)
        others = tuple(
            (name, version, each.text, _whole(each.subject, each.references))
            for (name, version), each in sorted(found.items())
        )
        return settled, Text(schema_type, text, _whole(subject, settled), others, is_new)


def _whole(subject: str, references: Iterable[SchemaReference]) -> tuple[SchemaReference, ...]:
    """Return references by their subjects' whole names."""
    home = Subject.of(subject)
    return tuple(replace(each, subject=home.beside(each.subject)) for each in references)


def _invalid(subject: str, wanted: Wanted, details: str) -> str:
    """Return Confluent's words for a schema that is none."""
    listed = ", ".join(
        f"{{name='{each.name}', subject='{each.subject}', version={each.version}}}" for each in wanted.references
    )
    number = -1 if wanted.id is None else wanted.id
    text = wanted.text[:SHOWN_CHARS_MAX]
    shown = (
        f"{{subject={subject},version={wanted.version},id={number},schemaType={wanted.schema_type},references=[{listed}],"
        f"metadata=null,ruleSet=null,schema={text}}}"
    )
    return f"Invalid schema {shown} with refs [{listed}] of type {wanted.schema_type}, details: {details}"
