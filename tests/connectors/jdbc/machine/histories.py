"""One history: statements at a source's table, records in a topic, deliveries to a sink, by a seed.

What the topic told is replayed by key into a model, whose values are the source server's own, read by the machine at the
moment when the rows were told. At the end the sink's table equals the model: each row that is not among the dead letters,
once, with these values, and no other row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

from ottla.connect import ConnectError, RetriableError
from ottla.connect.converters.json import JsonConverter
from ottla.connectors.jdbc import JdbcSinkConnector, JdbcSourceConnector
from tests.connectors.contexts import Store, started
from tests.connectors.jdbc.machine.columns import ADDED, NEXT, WIDER, Typed, declared, same, value_of
from tests.connectors.jdbc.machine.places import KINDS, Place
from tests.connectors.jdbc.worker import ConnectorContext, Reporter, SinkContext, record

__all__ = ["Difference", "History"]

ZONES = ("UTC", "Asia/Tokyo", "Europe/Vienna", "America/New_York")
STEPS_MAX = 14
POLLS_MAX = 200
BEGIN = datetime(2024, 1, 15, 12, tzinfo=UTC)

Row = Mapping[str, Typed | None]


class Difference(AssertionError):
    """The sink's table is not what the topic told, and nobody said so."""


@dataclass
class Count:
    """How much histories did."""

    rows: int = 0
    letters: int = 0
    ended: int = 0


@dataclass
class History:
    """A history between two databases."""

    seed: int
    places: Mapping[str, tuple[Place, Place]]
    count: Count = field(default_factory=Count)

    def __post_init__(self) -> None:
        self.rng = rng = Random(self.seed)
        kinds = [each for each in KINDS if each in self.places]
        self.source, self.sink = self.places[rng.choice(kinds)][0], self.places[rng.choice(kinds)][1]
        self.zone = ZoneInfo(rng.choice(ZONES))
        self.changes_rows = rng.random() < 0.5
        """Whether rows are told again when they change, by time; else each once, by its number."""

        self.inserts = not self.changes_rows and rng.random() < 0.5
        """Whether the sink adds a row for each record, and knows no key."""

        self.named = self.sink.kind == "postgresql" and rng.random() < 0.08
        """Whether the topic's name is none that the sink's database has."""

        self.kinds: dict[str, str] = {}
        self.numbers, self.moments = 0, 0
        self.topic: list[tuple[bytes, Row]] = []
        self.model: dict[int, dict[str, Typed | None]] = {}
        self.written: list[int] = []
        self.delivered = 0
        self.store, self.reporter = Store(), Reporter()
        self.log: list[str] = []

    def run(self) -> None:
        """Do it; raises Difference, with all that was done."""
        try:
            self._begin()
            for _ in range(self.rng.randint(6, STEPS_MAX)):
                self.rng.choice(self._steps())()
                self._poll()
            if self.changes_rows:
                self._tell_all_again()
            self._deliver(whole=True)
            if self.changes_rows:
                self._now()
            self._compare()
        except ConnectError as error:
            self.log.append(f"told as an error: {error}")
            self.count.ended += 1
            self._compare()
        except Difference as error:
            raise Difference(f"{error}\n  " + "\n  ".join(self.log)) from None
        finally:
            self._end()

    def _steps(self) -> list[Any]:
        found = [self._insert, self._insert, self._alter, self._alter, self._add, self._restart, self._deliver]
        found += [self._deliver, self._widen, self._drop]
        return [*found, self._update, self._update] if self.changes_rows else found

    # The source

    def _begin(self) -> None:
        for place in (self.source, self.sink):
            place.clear()
        at = {
            "postgresql": "TIMESTAMPTZ(3)",
            "mariadb": "TIMESTAMP(3) NOT NULL DEFAULT '2000-01-01'",
            "sqlite": "TIMESTAMP",
        }
        if self.rng.random() < 0.5:
            at |= {"postgresql": "TIMESTAMP(3)", "mariadb": "DATETIME(3)"}
        self.at_zoned = at[self.source.kind].startswith(("TIMESTAMPTZ", "TIMESTAMP(3) NOT"))
        self._do(self.source, f"CREATE TABLE t (id BIGINT PRIMARY KEY, at {at[self.source.kind]})")
        for _ in range(self.rng.randint(1, 3)):
            self._add()
        self.is_unique = not self.inserts and self.rng.random() < 0.4
        if self.is_unique:
            self._do(self.source, f"ALTER TABLE t ADD COLUMN u {declared('int', self.source.kind)}")
            self.kinds["u"] = "int"
            key = "id BIGINT PRIMARY KEY, u INTEGER UNIQUE"
            self._do(self.sink, f"CREATE TABLE t ({key})")
        elif self.inserts and self.rng.random() < 0.5:
            self._do(self.sink, "CREATE TABLE t (id BIGINT, CHECK (id % 5 <> 3))")
        self._start_source()
        self._start_sink()

    def _do(self, place: Place, *statements: str) -> bool:
        done = place.changed(*statements)
        self.log += [f"{'' if done else 'refused '}{place.kind}: {each}" for each in statements]
        return done

    def _moment(self, at: datetime | None = None) -> datetime:
        self.moments += 1
        moment = at or BEGIN + timedelta(seconds=self.moments)
        return moment.astimezone(UTC if self.at_zoned else self.zone).replace(
            tzinfo=UTC if self.at_zoned and self.source.kind == "postgresql" else None
        )

    def _value(self, name: str) -> Any:
        if name == "u":
            return self.rng.randrange(6)
        value = value_of(self.kinds[name], self.rng, self.zone)
        if self.source.kind == "sqlite":
            if hasattr(value, "isoformat"):
                value = value.astimezone(self.zone).replace(tzinfo=None) if getattr(value, "tzinfo", None) else value
                return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
            return float(value) if type(value).__name__ == "Decimal" else value
        if self.source.kind == "mariadb" and getattr(value, "tzinfo", None) is not None:
            return value.replace(tzinfo=None)
        return value

    def _insert(self, at: datetime | None = None) -> None:
        for _ in range(1 if at else self.rng.randint(1, 4)):
            self.numbers += 1
            values = {"id": self.numbers, "at": self._text_of(self._moment(at))}
            values |= {name: self._value(name) for name in self.kinds}
            names = ", ".join(map(self.source.quoted, values))
            self.source.run(f"INSERT INTO t ({names}) VALUES ({', '.join(f':{each}' for each in values)})", values)
            self.log.append(f"insert {values}")

    def _text_of(self, moment: datetime) -> Any:
        return moment.isoformat(" ", "milliseconds") if self.source.kind == "sqlite" else moment

    def _update(self) -> None:
        if not self.numbers or not self.kinds:
            return
        name = self.rng.choice(list(self.kinds))
        values = {"id": self.rng.randint(1, self.numbers), "at": self._text_of(self._moment()), "v": self._value(name)}
        self.source.run(f"UPDATE t SET {self.source.quoted(name)} = :v, at = :at WHERE id = :id", values)
        self.log.append(f"update {name}: {values}")

    def _add(self) -> None:
        name = f"v{len(self.log)}"
        kind = self.rng.choice(ADDED)
        if self._do(self.source, f"ALTER TABLE t ADD COLUMN {name} {declared(kind, self.source.kind)}"):
            self.kinds[name] = kind

    def _drop(self) -> None:
        names = [each for each in self.kinds if each != "u"]
        if len(names) > 1 and self.rng.random() < 0.3:
            name = self.rng.choice(names)
            self._do(self.source, f"ALTER TABLE t DROP COLUMN {name}")
            del self.kinds[name]

    def _alter(self) -> None:
        """Give a column another type; what the server refuses to convert stays as it is."""
        name = self.rng.choice(list(self.kinds))
        targets = NEXT[self.kinds[name]]
        if name == "u" or not targets:
            return
        kind = self.rng.choice(targets)
        word, place = declared(kind, self.source.kind), self.source
        if place.kind == "postgresql":
            zones = {self.kinds[name], kind} == {"stamp", "zoned"}
            how = f"{name} AT TIME ZONE '{self.zone}'" if zones else f"CAST({name} AS {word})"
            done = self._do(place, f"ALTER TABLE t ALTER {name} TYPE {word} USING {how}")
        elif place.kind == "mariadb":
            done = self._do(place, f"ALTER TABLE t MODIFY {name} {word}")
        elif self.kinds[name] in ("text", "short") or kind == "bool":
            return  # it would keep texts in columns of numbers
        else:
            columns = {each: declared(self.kinds[each] if each != name else kind, "sqlite") for each in self.kinds}
            made = ", ".join(f"{each} {type_}" for each, type_ in columns.items())
            listed = ", ".join(("id", "at", *columns))
            done = self._do(
                place,
                f"CREATE TABLE made (id BIGINT PRIMARY KEY, at TIMESTAMP, {made})",
                f"INSERT INTO made ({listed}) SELECT {listed} FROM t",
                "DROP TABLE t",
                "ALTER TABLE made RENAME TO t",
            )
        if done:
            self.kinds[name] = kind

    # The topic

    def _start_source(self) -> None:
        mode = {"mode": "incrementing", "incrementing.column.name": "id"}
        if self.changes_rows:
            mode |= {"mode": "timestamp+incrementing", "timestamp.column.name": "at", "validate.non.null": "false"}
        prefix = "shop.public." if self.named else ""
        more = {"topic.prefix": prefix, "poll.interval.ms": "0", "db.timezone": str(self.zone)}
        more |= {"batch.max.rows": str(self.rng.choice((1, 2, 100))), "table.include.list": "(.*[.])?t"}
        connector = JdbcSourceConnector()
        connector.context = ConnectorContext()
        connector.start({**self.source.props, **mode, **more})
        try:
            (config,) = connector.task_configs(1)
        finally:
            connector.stop()
        self.reading = started(connector.task_class(), config, self.store)

    def _poll(self, *, kept: float = 1.0) -> set[int]:
        """Read what there is into the topic, with the values that the source's server tells; returns the rows' numbers."""
        rows = {row["id"][1]: row for row in self.source.rows(self.zone) if row["id"] is not None}
        converter = JsonConverter()
        converter.configure({"schemas.enable": "true"}, is_key=False)
        told = set()
        for _ in range(POLLS_MAX):
            found = self.reading.poll()
            if not found:
                return told
            for each in found:
                if self.rng.random() > kept:
                    return told  # killed: what follows is read again by another task
                written = converter.from_connect(each.topic, each.value_schema, each.value)
                assert written is not None
                self.store.take([each])
                names = [field.name for field in each.value_schema.fields]
                self.topic.append((written, {name: rows[each.value["id"]][name] for name in names}))
                told.add(each.value["id"])
        raise Difference(f"The source still reads after {POLLS_MAX} polls")

    def _restart(self) -> None:
        self.log.append("restart")
        self._insert()
        self._poll(kept=0.7)
        self.reading.stop()
        self._start_source()
        if self.rng.random() < 0.5:
            self.writing.stop()
            self._start_sink()

    def _tell_all_again(self) -> None:
        for number in range(1, self.numbers + 1):
            self.source.run("UPDATE t SET at = :at WHERE id = :id", {"at": self._text_of(self._moment()), "id": number})
        self.log.append("update all")
        told = self._poll()
        if len(told) != self.numbers:
            raise Difference(f"Rows {set(range(1, self.numbers + 1)) - told} were changed and not told")

    def _now(self) -> None:
        """Rows of the last hour are told, and those of the next are not yet."""
        for minutes in (-50, 50):
            self._insert(datetime.now(UTC) + timedelta(minutes=minutes))
        told = self._poll()
        if told != {self.numbers - 1}:
            raise Difference(
                f"Of rows 50 minutes ago and ahead, {self.numbers - 1} and {self.numbers}, {told} were told"
            )
        self._deliver(whole=True)

    # The sink

    def _start_sink(self) -> None:
        props = {**self.sink.props, "topics": "t", "auto.create": "true", "auto.evolve": "true", "max.retries": "0"}
        props |= {"db.timezone": str(self.zone), "batch.size": str(self.rng.choice((1, 3, 3000)))}
        if not self.inserts:
            props |= {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}
        props |= {"table.name.format": "copy.${topic}"} if self.named and self.rng.random() < 0.5 else {}
        connector = JdbcSinkConnector()
        connector.start(props)
        (config,) = connector.task_configs(1)
        self.writing = connector.task_class()
        self.writing.context = SinkContext(config, self.reporter)
        self.writing.start(config)

    def _widen(self) -> None:
        """Give a column of the sink's table a type that holds more."""
        types = self.sink.types()
        wider = WIDER[self.sink.kind]
        can = {n: t.partition(" ")[2] for n, t in types.items() if n not in ("id", "u", "at")}
        can = {name: type_ for name, type_ in can.items() if type_ in wider}
        if not can or (self.sink.kind == "mariadb" and str(self.zone) not in ("UTC", "Asia/Tokyo")):
            return
        name = self.rng.choice(list(can))
        word = wider[can[name]]
        if self.sink.kind == "postgresql":
            zoned = word == "TIMESTAMPTZ"
            how = f"{name} AT TIME ZONE '{self.zone}'" if zoned else f"CAST({name} AS {word})"
            self._do(self.sink, f"ALTER TABLE t ALTER {name} TYPE {word} USING {how}")
        else:
            zone = "+09:00" if str(self.zone) == "Asia/Tokyo" else "+00:00"
            back = "SET time_zone = '+00:00'"
            self._do(self.sink, f"SET time_zone = '{zone}'", f"ALTER TABLE t MODIFY {name} {word}", back)

    def _deliver(self, *, whole: bool = False) -> None:
        """Put records into the sink, some of them twice where that has to be the same."""
        while self.delivered < len(self.topic):
            end = len(self.topic) if self.rng.random() < 0.5 else self.rng.randint(self.delivered + 1, len(self.topic))
            for _ in range(1 if self.inserts else self.rng.choice((1, 1, 2))):
                self._put(self.delivered, end)
            self.delivered = end
            if not whole:
                return

    def _put(self, begin: int, end: int) -> None:
        converter = JsonConverter()
        converter.configure({"schemas.enable": "true"}, is_key=False)
        topic = "shop.public.t" if self.named else "t"
        records = []
        for offset in range(begin, end):
            value = converter.to_connect(topic, self.topic[offset][0])
            records.append(record(value.value, topic=topic, offset=offset))
        self.reporter.reported.clear()
        self.log.append(f"put {begin} to {end}")
        try:
            self.writing.put(records)
        except RetriableError as error:
            raise Difference(f"The sink asks for another try, and nothing is away: {error}") from None
        refused = {each.offset: str(error) for each, error in self.reporter.reported}
        self.log += [f"dead letter {offset}: {error}" for offset, error in refused.items()]
        self.count.letters += len(refused)
        for offset in range(begin, end):
            if offset not in refused:
                row = self.topic[offset][1]
                number = row["id"][1] if row["id"] is not None else None
                assert number is not None
                self.model.setdefault(int(number), {}).update(row)
                self.written.append(int(number))

    def _compare(self) -> None:
        """Raise Difference where the sink's table is not the model."""
        if self.named and self.written:
            raise Difference(
                "Rows of a topic whose name is no table's here were written somewhere, and nobody was told"
            )
        types = self.sink.types()
        rows = self.sink.rows(self.zone) if types else []
        numbers = [int(row["id"][1]) for row in rows if row["id"] is not None]
        wanted = sorted(self.written if self.inserts else self.model)
        if sorted(numbers) != wanted:
            raise Difference(f"The sink has rows {sorted(numbers)}, and {wanted} were written")
        for number, row in zip(numbers, rows, strict=True):
            for name, told in self.model[number].items():
                if name not in row:
                    raise Difference(f"The sink has no column {name}")
                if not same(told, row[name], self.zone):
                    kept = f"{row[name]}, in a column of {types[name]}"
                    raise Difference(f"Row {number} has {name} = {told} at the source, and {kept} at the sink")
        self.count.rows += len(rows)

    def _end(self) -> None:
        for each in (getattr(self, "reading", None), getattr(self, "writing", None)):
            if each is not None:
                each.stop()
