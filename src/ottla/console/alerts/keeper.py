"""Watches a cluster by rules that lie in a topic, tells targets when one begins to ring and when it rings no more.

The topic (compacted) holds `rule NAME`, `silence NAME` and `state NAME`; every console of the cluster follows it, so that a
rule is the same for all. A rule that begins to ring is noted there before anybody is told: of several consoles the first
whose note is in the topic tells, and one that starts anew does not tell again. Where a console notes and dies before it has
told, another does after two minutes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ottla.background import count_failure, end, keep_running, supervise
from ottla.base import Millis, OttlaError
from ottla.console.alerts.notices import Notices, notice
from ottla.console.alerts.rules import OK, RINGING, AlertError, Event, Rule, State, next_state, rule_of
from ottla.console.figures.sampler import Sampler
from ottla.console.figures.views import Seen
from ottla.console.own_topic import OwnTopic
from ottla.wire import Record

__all__ = ["ALERT_CONFIGS", "AlertKeeper", "AlertRow"]

log = logging.getLogger(__name__)

ALERT_CONFIGS: Final[Mapping[str, str]] = {"cleanup.policy": "compact"}
RULES_MAX: Final = 200
OWNER_GONE_MS: Final = 120_000
DOOR_SECONDS: Final = 30.0
RULE, SILENCE, STATE = "rule", "silence", "state"


@dataclass(frozen=True, slots=True)
class AlertRow:
    """A rule with how it stands."""

    rule: Rule
    state: State
    silenced_until_ms: int
    values: Mapping[str, object]
    errors: Mapping[str, str]
    """What went wrong when its targets were told last, by target."""


class AlertKeeper:
    """Rules of one cluster; without `acts` it shows how they stand, notes nothing, and tells nobody."""

    def __init__(
        self,
        sampler: Sampler,
        topic: OwnTopic,
        notices: Notices,
        *,
        cluster: str,
        link: Callable[[], str],
        now_ms: Callable[[], int],
        acts: bool = True,
    ) -> None:
        self._sampler, self._topic, self.notices = sampler, topic, notices
        self._cluster, self._link, self._now_ms, self._acts = cluster, link, now_ms, acts
        self.me = secrets.token_hex(8)
        self.error = ""
        """Why rules cannot be read or kept."""
        self.broken: dict[str, str] = {}
        """Rules that cannot be understood, each with why."""
        self._rules: dict[str, Rule] = {}
        self._silences: dict[str, int] = {}
        self._states: dict[str, State] = {}
        self._errors: dict[str, Mapping[str, str]] = {}
        self._read = 0
        """The offset up to which the topic was read."""
        self._telling: dict[str, asyncio.Task[None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._folding, self._noting = asyncio.Lock(), asyncio.Lock()
        self._over: dict[str, int] = {}
        """Of rules that ring for another console: since when their conditions do not hold any more."""

    @property
    def topic(self) -> str:
        """Where rules and silences are kept; empty where there are none."""
        return self._topic.name

    def start(self) -> None:
        """Begin to watch."""
        self._loop = asyncio.get_running_loop()
        if self.topic:
            self._task = keep_running(self._run, name="watch rules", serves="alerts")

    async def stop(self) -> None:
        """Watch no more."""
        await end(self._task, *self._telling.values())

    async def settled(self) -> None:
        """Wait until everybody who is being told has been, or was given up."""
        while self._telling:
            await asyncio.wait(list(self._telling.values()))
            await asyncio.sleep(0)

    async def _run(self) -> None:
        count = 0
        while True:
            count = await self._sampler.next(count)
            try:
                if self._sampler.error is None:
                    await self.look(await self._sampler.seen())
            except OttlaError as error:
                self._complain(str(error))
            except Exception:  # a mistake of ours costs one look, and is said
                log.exception("rules could not be looked at")
                count_failure("the console's alerts")
            else:
                self._complain("")

    def _complain(self, text: str) -> None:
        if text and text != self.error:
            log.warning("alerts: %s", text)
        self.error = text

    # -- what the topic says

    async def follow(self) -> None:
        """Read what has come into the topic; raises OttlaError."""
        async with self._folding:
            end = await self._topic.end()
            if end < self._read:  # made anew
                self._forget()
            async for record in self._topic.records(after=self._read):
                self._fold(record)
                self._read = int(record.offset) + 1
            self._read = max(self._read, end)

    def _forget(self) -> None:
        self._read = 0
        for each in (self._rules, self._silences, self._states, self.broken):
            each.clear()

    def _fold(self, record: Record) -> None:
        """Take a record in; what no console has written is passed over."""
        kind, _, name = (record.key or b"").decode("utf-8", "replace").partition(" ")
        try:
            value: Any = None if record.value is None else json.loads(record.value)
            if value is not None and not isinstance(value, dict):
                return
            if kind == RULE:
                self._fold_rule(name, value)
            elif kind == SILENCE:
                self._silences[name] = 0 if value is None else int(value["until_ms"])
            elif kind == STATE:
                self._fold_state(name, value)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            log.debug("a record of %s is passed over: %s", self.topic, error)

    def _fold_rule(self, name: str, value: dict[str, Any] | None) -> None:
        before = self._rules.pop(name, None)
        self.broken.pop(name, None)
        if value is None:  # a later rule of this name is another one
            for each in (self._states, self._silences, self._errors, self._over):
                each.pop(name, None)
            return
        try:
            rule = rule_of({**value, "name": name})
        except AlertError as error:
            self.broken[name] = str(error)
            return
        if len(self._rules) >= RULES_MAX:
            self.broken[name] = f"there are {RULES_MAX} rules already"
            return
        self._rules[name] = rule
        if before is not None and before.condition != rule.condition:
            self._states.pop(name, None)

    def _fold_state(self, name: str, value: dict[str, Any] | None) -> None:
        if value is None:
            self._states.pop(name, None)
            return
        state, before = str(value["state"]), self._states.get(name, State())
        owner, told = str(value.get("owner", "")), value.get("told") is True
        if state == RINGING:
            takes_over = value.get("takes_over") is True
            if before.is_ == RINGING and before.owner and before.owner != owner and not takes_over:
                return  # another console was first
            since, rang = int(value["since_ms"]), int(value["rang_ms"])
            self._states[name] = State(RINGING, since, rang, owner, told or (before.is_ == RINGING and before.told))
        else:
            self._states[name] = State(OK, int(value["since_ms"]))

    async def _note(self, name: str, state: State, *, takes_over: bool = False) -> None:
        """Write how it stands with a rule, and read what others have written meanwhile."""
        value: dict[str, object] = {"state": state.is_, "since_ms": state.since_ms}
        if state.is_ == RINGING:
            value |= {"rang_ms": state.rang_ms, "owner": state.owner, "told": state.told, "takes_over": takes_over}
        async with self._noting:
            if state.told and self._states.get(name, State()).rang_ms != state.rang_ms:
                return  # it rings no more by now
            if name not in self._rules:
                return  # it was deleted: nothing of it may be left
            await self._append({f"{STATE} {name}": value})
            await self.follow()

    async def _append(self, values: Mapping[str, object]) -> None:
        now = Millis(self._now_ms())
        await self._topic.append(
            *(
                Record(
                    timestamp=now,
                    key=key.encode(errors="replace"),
                    value=None if value is None else json.dumps(value, ensure_ascii=False).encode(errors="replace"),
                )
                for key, value in values.items()
            )
        )

    # -- looking

    async def look(self, seen: Seen) -> None:
        """Look at every rule; raises OttlaError where the topic cannot be read or written."""
        await self.follow()
        for name, rule in list(self._rules.items()):
            if name not in self._rules:
                continue  # deleted while others were told of
            before = self._states.get(name, State())
            after = next_state(rule, before, seen)
            if not (before.is_ == RINGING and after.is_ == OK):
                self._over.pop(name, None)
            if self._acts and before.is_ == RINGING and after.is_ == OK:
                await self._rings_no_more(rule, before, after, seen)
            elif self._acts and before.is_ != RINGING and after.is_ == RINGING:
                await self._note(name, replace(after, owner=self.me))
            elif self._acts or after.is_ != RINGING:
                self._states[name] = after
            await self._tell_ringing(rule, seen)

    async def _rings_no_more(self, rule: Rule, before: State, after: State, seen: Seen) -> None:
        """Note it, and tell who was told: whose rule it is, or another where that is silent for two minutes."""
        at_ms = seen.sample.at_ms
        if before.owner != self.me and at_ms - self._over.setdefault(rule.name, at_ms) < OWNER_GONE_MS:
            return
        self._over.pop(rule.name, None)
        await self._note(rule.name, after)
        if before.told:
            self._tell(rule.name, Event(rule, before, False, at_ms, rule.values(seen)))

    async def _tell_ringing(self, rule: Rule, seen: Seen) -> None:
        """Tell of a rule that rings and of which nobody was told: it is this console's, or its console is gone."""
        name, at_ms = rule.name, seen.sample.at_ms
        state = self._states.get(name, State())
        if state.is_ != RINGING or state.told or not self._acts or self.is_silenced(name) or name in self._telling:
            return
        if state.owner != self.me:
            if at_ms - state.rang_ms < OWNER_GONE_MS:
                return
            await self._note(name, replace(state, owner=self.me), takes_over=True)
            if self._states.get(name, State()).owner != self.me:
                return
        self._tell(name, Event(rule, state, True, at_ms, rule.values(seen)))

    def is_silenced(self, name: str) -> bool:
        """Return whether a rule tells nobody for now."""
        return self._silences.get(name, 0) > self._now_ms()

    def _tell(self, name: str, event: Event) -> None:
        async def tell() -> None:
            said = notice(event, self._cluster, self._cluster_id(), f"{self._link()}/alerts")
            errors = {} if self.is_silenced(name) else await self.notices.tell(event.rule.targets, said)
            self._errors[name] = errors
            for target, error in errors.items():
                log.warning("alert %s: %s was not told: %s", name, target, error)
            state = self._states.get(name, State())
            if event.rings and state.is_ == RINGING and state.rang_ms == event.state.rang_ms:
                await self._note(name, replace(state, owner=self.me, told=True))

        def ended(done: asyncio.Task[None]) -> None:
            if self._telling.get(name) is done:
                del self._telling[name]

        waits = self._telling.get(name)
        task = supervise(_behind(waits, tell), name="tell", serves=f"alert {name}")
        self._telling[name] = task
        task.add_done_callback(ended)

    def _cluster_id(self) -> str:
        return "" if self._sampler.newest is None else self._sampler.newest.cluster_id

    # -- for pages and plans

    def ringing(self) -> list[Rule]:
        """Return the rules that ring, by name."""
        return [rule for name, rule in sorted(self._rules.items()) if self._states.get(name, State()).is_ == RINGING]

    def rows(self, seen: Seen) -> list[AlertRow]:
        """Return every rule with how it stands, what rings first."""
        order = {RINGING: 0, OK: 2}
        rows = [
            AlertRow(
                *(rule, self._states.get(name, State()), self._silences.get(name, 0), rule.values(seen)),
                self._errors.get(name, {}),
            )
            for name, rule in self._rules.items()
        ]
        return sorted(rows, key=lambda row: (order.get(row.state.is_, 1), row.rule.name))

    async def test(self, name: str, seen: Seen) -> dict[str, str] | None:
        """Tell a rule's targets that this is a test; returns what went wrong, None where there is no such rule."""
        rule = self._rules.get(name)
        if rule is None:
            return None
        event = Event(rule, self._states.get(name, State()), True, self._now_ms(), rule.values(seen))
        said = notice(event, self._cluster, self._cluster_id(), f"{self._link()}/alerts", is_test=True)
        return await self.notices.tell(rule.targets, said, tries=1)

    def rule(self, name: str) -> Mapping[str, object] | None:
        """Return a rule in JSON's terms, None where there is none."""
        found = self._rules.get(name)
        return None if found is None else found.kept()

    def silence(self, name: str) -> int:
        """Return until when (ms) a rule tells nobody; 0 where it does."""
        return self._silences.get(name, 0) if self.is_silenced(name) else 0

    def checked(self, given: Mapping[str, object]) -> Mapping[str, object]:
        """Return a rule as it is kept; raises AlertError for what cannot be one, and for targets that there are not."""
        rule = rule_of(given)
        for each in rule.targets:
            if each not in self.notices.targets:
                known = ", ".join(self.notices.targets) or "none (ottla.console.alerts.targets names them)"
                raise AlertError(f"There is no target {each}: there are {known}")
        if rule.name not in self._rules and len(self._rules) >= RULES_MAX:
            raise AlertError(f"There are {RULES_MAX} rules already")
        return rule.kept()

    def put(self, name: str, given: Mapping[str, object] | None) -> None:
        """Keep a rule, or None in its place, from another thread; raises OttlaError.

        With a rule its silence and its state are deleted, in one batch: a topic that is compacted forgets that there was a
        rule, and what is left of it would hold for the next one of that name.
        """
        kinds = (SILENCE, STATE, RULE) if given is None else (RULE,)
        self._through_the_loop(lambda: self._put({f"{kind} {name}": given for kind in kinds}))

    def put_silence(self, name: str, until_ms: int) -> None:
        """Have a rule tell nobody until then, from another thread; raises OttlaError."""
        self._through_the_loop(lambda: self._put({f"{SILENCE} {name}": {"until_ms": until_ms}}))

    async def _put(self, values: Mapping[str, object]) -> None:
        async with self._noting:
            await self._append(values)
            await self.follow()

    def _through_the_loop(self, call: Callable[[], Awaitable[None]]) -> None:
        async def called() -> None:
            await call()

        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(called(), self._loop).result(DOOR_SECONDS)


async def _behind(before: asyncio.Task[None] | None, then: Callable[[], Awaitable[None]]) -> None:
    """Do something when something else has ended: that a rule rings no more is told behind that it rings."""
    if before is not None:
        await asyncio.wait([before])
    await then()
