"""`make demo-cdc`: two tables of PostgreSQL captured → topics → a join of tables in Streams → another database, with kills.

Rows are inserted, updated and deleted while the Connect worker and the broker are killed with kill -9 and started again. At
the end the destination's table is compared with the join that the source answers itself: exit code 0 where they are equal,
else 1. `OTTLA_POSTGRES_URL` names the source, on a server with `wal_level=logical`.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orders_with_customers as plan  # beside this file
from parts import PLAIN_JSON, Part, created, free_port, run_on_postgres

from ottla.cli.commands.demo import DemoError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["main"]

CUSTOMERS, ORDERS = 40, 400
"""Rows that stand in the tables before they are captured."""
WRITING_SECONDS = 45.0
CHANGES = 900
RUN_SECONDS_MAX = 175.0
LOOK_SECONDS = 0.25
QUIET = {"PYTHONUNBUFFERED": "1"}
REGIONS = ("north", "south", "east", "west")
COPY = "copy"
SQL_JOIN = (
    "SELECT orders.id, cents, name, region FROM orders JOIN customers ON customers.id = orders.customer_id ORDER BY 1"
)
SQL_COPY = f"SELECT id, cents, customer, region FROM {COPY} ORDER BY 1"


def main(argv: list[str] | None = None) -> int:
    """Run the demonstration; returns 0 where the destination equals the source's own join, else 1."""
    about = "A database's changes, joined, into another database, with kills on the way."
    return run_on_postgres("demo-cdc", about, argv, lambda *given: _Demo(*given).run())


class _Demo:
    """One run: its parts, its writer, and the comparison at the end."""

    def __init__(self, console: Console, folder: Path, url: str) -> None:
        import sqlalchemy as sa

        self.console, self.folder = console, folder
        self.begun = time.monotonic()
        self.source = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
        self.target = sa.create_engine(self.source.url.set(database=COPY), poolclass=sa.NullPool)
        self.bootstrap, self.rest = f"127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
        self.broker, self.worker, self.streams = self._parts()
        self.changes = 0
        self.failure: str | None = None

    def run(self) -> bool:
        """Run everything; returns whether the destination equals the source's own join."""
        self._make_tables()
        parts = (self.broker, self.worker, self.streams)
        try:
            self.broker.start()
            self._await(lambda: self.broker.state() == "ready", "the broker")
            self._make_topics()
            self.worker.start()
            self.streams.start()
            self._await(lambda: self.worker.state() == "ready", "the Connect worker")
            self._configure()
            self._await(lambda: len(self._copy()) == len(self._join()), "the snapshot, joined, in the other database")
            self._follow()
            return self._compare()
        except DemoError as error:
            tails = "\n".join(
                f"{each.name}:\n{each.log.read_text(errors='replace')[-1500:]}" for each in parts if each.log.exists()
            )
            raise DemoError(f"{error}\n{tails}") from None
        finally:
            for part in reversed(parts):
                part.kill()
            self.source.dispose()
            self.target.dispose()

    # -- the parts

    def _parts(self) -> tuple[Part, Part, Part]:
        ottla = [sys.executable, "-m", "ottla.cli.main"]
        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": "demo-cdc-connect",
            "listeners": self.rest,
            "exactly.once.source.support": "enabled",
            "offset.flush.interval.ms": "500",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
            "scheduled.rebalance.max.delay.ms": "0",
            **PLAIN_JSON,
            **{f"{each}.storage.topic": f"connect-{each}" for each in ("config", "offset", "status")},
            **{f"{each}.storage.replication.factor": "1" for each in ("config", "offset", "status")},
        }
        properties = self.folder / "worker.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        broker = [*ottla, "server", "start"]
        for each in (f"listeners=PLAINTEXT://{self.bootstrap}", f"log.dirs={self.folder / 'data'}"):
            broker += ["--override", each]
        streams = [*ottla, "streams", "run", str(Path(plan.__file__)), "--plain", "--master", "local[2]"]
        streams += ["--bootstrap-server", self.bootstrap, "--property", f"state.dir={self.folder / 'state'}"]
        worker = [*ottla, "connect-distributed", str(properties)]
        return (
            Part("Broker", broker, self.folder / "broker.log", "^ready ", environment=QUIET),
            Part("Connect worker", worker, self.folder / "worker.log", "^ready ", environment=QUIET),
            Part("Streams", streams, self.folder / "streams.log", "RUNNING", environment=QUIET),
        )

    def _make_tables(self) -> None:
        with self.source.connect() as connection:
            for statement in (
                f"CREATE DATABASE {COPY}",
                "CREATE TABLE customers (id INT PRIMARY KEY, name TEXT NOT NULL, region TEXT NOT NULL)",
                "CREATE TABLE orders (id INT PRIMARY KEY, customer_id INT NOT NULL, cents INT NOT NULL)",
                f"INSERT INTO customers SELECT g, 'Customer ' || g, 'north' FROM generate_series(0, {CUSTOMERS - 1}) g",
                f"INSERT INTO orders SELECT g, mod(g, {CUSTOMERS}), g FROM generate_series(1, {ORDERS}) g",
            ):
                connection.exec_driver_sql(statement)

    def _make_topics(self) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

        compacted = {"cleanup.policy": "compact"}
        names = (plan.CUSTOMERS, plan.ORDERS, plan.JOINED)
        topics = [NewTopic(name, num_partitions=2, replication_factor=1, config=compacted) for name in names]
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for topic, future in admin.create_topics(topics).items():
            try:
                future.result(RUN_SECONDS_MAX)
            except KafkaException as error:
                raise DemoError(f"topic {topic} could not be created: {error}") from error

    def _configure(self) -> None:
        """Create both connectors over REST."""
        url = self.source.url
        source = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "exactly.once.support": "required",
            "database.hostname": str(url.host),
            "database.port": str(url.port),
            "database.user": url.username or "",
            "database.password": url.password or "",
            "database.dbname": str(url.database),
            "plugin.name": "pgoutput",
            "topic.prefix": "shop",
            "table.include.list": "public\\.customers,public\\.orders",
            "publication.autocreate.mode": "filtered",
            "poll.interval.ms": "100",
            "transforms": "unwrap,plain",
            "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
            "transforms.plain.type": "org.apache.kafka.connect.transforms.ExtractField$Key",
            "transforms.plain.field": "id",
        }
        sink = {
            "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
            "connection.url": f"jdbc:postgresql://{url.host}:{url.port}/{COPY}",
            "connection.user": url.username or "",
            "connection.password": url.password or "",
            "topics": plan.JOINED,
            "table.name.format": COPY,
            "auto.create": "true",
            "insert.mode": "upsert",
            "pk.mode": "record_key",
            "pk.fields": "id",
            "delete.enabled": "true",
            "consumer.override.isolation.level": "read_committed",
            "consumer.override.session.timeout.ms": "6000",
        }
        for name, config in (("capture", source), ("copy", sink)):
            self._create(name, config)

    def _create(self, name: str, config: Mapping[str, str]) -> None:
        self._await(lambda: created(self.rest, name, config), f"connector {name}")

    # -- the way

    def _write(self) -> None:
        """Change the source, as its users would: inserts, updates of rows and of keys, deletes, more at once too."""
        chance = random.Random(11)
        try:
            with self.source.connect() as connection:
                for number in range(CHANGES):
                    connection.exec_driver_sql(_change(chance, number))
                    self.changes += 1
                    time.sleep(WRITING_SECONDS / CHANGES)
        except Exception as error:  # told where the demonstration looks for it, whatever it is
            self.failure = f"the writer has failed: {error}"

    def _follow(self) -> None:
        """Kill parts while rows are written, until the destination has arrived at the source or time is up."""
        kills = [(CHANGES // 5, self.worker), (CHANGES // 2, self.broker), (CHANGES * 7 // 10, self.worker)]
        writer = threading.Thread(target=self._write, daemon=True)
        writer.start()
        told_s = 0.0
        while True:
            if self.failure is not None:
                raise DemoError(self.failure)
            if kills and self.changes >= kills[0][0] and kills[0][1].state() == "ready":
                part = kills.pop(0)[1]
                part.kill()
                self._say(f"killed {part.name} with kill -9 after {self.changes} changes")
            for part in (self.broker, self.worker, self.streams):
                part.supervise()
            if time.monotonic() >= told_s + 5:
                told_s = time.monotonic()
                self._say(f"{self.changes} changes written, {len(self._copy())} rows joined in the other database")
            if not writer.is_alive() and not kills and self._copy() == self._join():
                return
            self._check_time(f"not everything has arrived ({self._difference()})")
            time.sleep(LOOK_SECONDS)

    def _compare(self) -> bool:
        """Compare the destination with what the source joins itself, and print the end of it."""
        wanted, found = self._join(), self._copy()
        starts = ", ".join(f"{each.name} {each.starts}" for each in (self.broker, self.worker, self.streams))
        self._say(f"{self.changes} changes written; starts: {starts}")
        verdict = "[green]equal[/green]" if found == wanted else "[red]NOT equal[/red]"
        self.console.print(f"{len(found):,} rows of orders with their customers: {verdict} to the source's own join")
        return found == wanted

    def _join(self) -> list[tuple[Any, ...]]:
        with self.source.connect() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(SQL_JOIN).all()]

    def _copy(self) -> list[tuple[Any, ...]]:
        from sqlalchemy.exc import SQLAlchemyError

        try:
            with self.target.connect() as connection:
                return [tuple(row) for row in connection.exec_driver_sql(SQL_COPY).all()]
        except SQLAlchemyError:
            return []  # the sink has not made its table yet

    def _difference(self) -> str:
        wanted, found = set(self._join()), set(self._copy())
        return f"missing {sorted(wanted - found)[:5]}, too much {sorted(found - wanted)[:5]}"

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        while not condition():
            self._check_time(f"{what}: not there")
            time.sleep(LOOK_SECONDS)
        self._say(f"ready: {what}")

    def _check_time(self, what: str) -> None:
        if time.monotonic() - self.begun > RUN_SECONDS_MAX:
            raise DemoError(f"{what} after {RUN_SECONDS_MAX:.0f} s")

    def _say(self, text: str) -> None:
        self.console.print(f"{time.monotonic() - self.begun:6.1f} s  {text}")


def _change(chance: random.Random, number: int) -> str:
    """Return a statement of a user's."""
    customer, order = chance.randrange(CUSTOMERS), chance.randrange(ORDERS + number)
    region = chance.choice(REGIONS)
    match chance.randrange(10):
        case 0 | 1 | 2:
            return f"INSERT INTO orders VALUES ({ORDERS + 1 + number}, {customer}, {chance.randrange(100, 10_000)})"
        case 3 | 4:
            return f"UPDATE orders SET cents = cents + 1 WHERE id IN ({order}, {order + 1})"
        case 5:
            return f"UPDATE orders SET customer_id = {customer} WHERE id = {order}"
        case 6:
            return f"DELETE FROM orders WHERE id = {order}"
        case 7:
            return f"UPDATE customers SET region = '{region}', name = name || '.' WHERE id = {customer}"
        case 8:
            return f"UPDATE orders SET id = id + 1000000 WHERE id = {order}"
        case _:
            if number % 2:
                return f"DELETE FROM customers WHERE id = {customer}"
            return (
                f"INSERT INTO customers VALUES ({customer}, 'Customer {customer} again', '{region}') "
                "ON CONFLICT DO NOTHING"
            )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
