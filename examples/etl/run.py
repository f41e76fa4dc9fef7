"""`make demo-etl`: PostgreSQL → JDBC source → topics → a Streams join and window → S3 and JDBC sinks, with kills on the way.

Every part is a process of its own under a supervisor that starts it again. When all orders have been written the source is
compared with both destinations: exit code 0 where they are equal, else 1. `OTTLA_POSTGRES_URL` names the database.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import region_totals as plan  # beside this file
from parts import PLAIN_JSON, Part, created, free_port, run_on_postgres

from ottla.cli.commands.demo import DemoError, start_broker, stop_broker

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["main"]

ORDERS = 600
CUSTOMERS = 40
REGIONS = ("north", "south", "east", "west")
FLUSH_SIZE = 50
"""Orders in one object of S3; divides `ORDERS`, so that every order's object is complete."""

START_SECONDS_MAX = 240.0
RUN_SECONDS_MAX = 420.0
WRITING_SECONDS = 60.0
LOOK_SECONDS = 0.5
BUCKET, REGION, KEY_ID, SECRET = "orders", "eu-west-1", "demo", "demo-secret"


def main(argv: list[str] | None = None) -> int:
    """Run the demonstration; returns 0 where source and destinations are equal, else 1."""
    about = "From database to database and S3 through topics, with kills on the way."
    return run_on_postgres("demo-etl", about, argv, lambda *given: _Demo(*given).run())


class _Demo:
    """One run: its parts, what they have come to, and the comparison at the end."""

    def __init__(self, console: Console, folder: Path, url: str) -> None:
        import sqlalchemy as sa

        self.console, self.folder, self.url = console, folder, url
        self.engine = sa.create_engine(url, poolclass=sa.NullPool)
        self.rest = f"http://127.0.0.1:{free_port()}"
        self.s3_url = f"http://127.0.0.1:{free_port()}"
        self.events: list[str] = []
        self.written = threading.Event()

    def run(self) -> bool:
        """Run everything; returns whether source and destinations are equal."""
        self._make_source()
        broker = start_broker(self.console, self.folder)
        self.bootstrap = broker.bootstrap
        self.worker, self.streams, self.s3 = self._parts()
        try:
            self._make_topics()
            for part in (self.s3, self.worker, self.streams):
                part.start()
            self._await(lambda: self.s3.state() == "ready" and self._make_bucket(), "the S3 server")
            self._await(lambda: self.worker.state() == "ready", "the Connect worker")
            self._configure()
            self._await(lambda: self._records(plan.CUSTOMERS) >= CUSTOMERS, "the customers in their topic")
            self._await(lambda: self.streams.state() == "ready", "the Streams application")
            self._follow()
            return self._compare()
        except DemoError as error:
            raise DemoError(f"{error}\n{self._tails()}") from None
        finally:
            for part in (self.worker, self.streams, self.s3):
                part.stop()
            stop_broker(broker)
            self.engine.dispose()

    # The parts

    def _parts(self) -> tuple[Part, Part, Part]:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": "demo-etl-connect",
            "listeners": self.rest,
            "exactly.once.source.support": "enabled",
            "offset.flush.interval.ms": "1000",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
            "scheduled.rebalance.max.delay.ms": "0",
            **PLAIN_JSON,
            **{f"{each}.storage.topic": f"connect-{each}" for each in ("config", "offset", "status")},
            **{f"{each}.storage.replication.factor": "1" for each in ("config", "offset", "status")},
        }
        properties = self.folder / "worker.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        ottla = [sys.executable, "-m", "ottla.cli.main"]
        port = self.s3_url.rpartition(":")[2]
        streams = ["streams", "run", str(Path(plan.__file__)), "--plain", "--master", "local[2]"]
        streams += ["--bootstrap-server", self.bootstrap, "--property", f"state.dir={self.folder / 'state'}"]
        quiet = {"PYTHONUNBUFFERED": "1"}
        return (
            Part(
                "Connect worker",
                [*ottla, "connect-distributed", str(properties)],
                self.folder / "worker.log",
                "^ready ",
                environment=quiet,
            ),
            Part("Streams", [*ottla, *streams], self.folder / "streams.log", "RUNNING", environment=quiet),
            Part(
                "S3 server",
                [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", port],
                self.folder / "s3.log",
                "Running on",
                environment=quiet,
            ),
        )

    def _make_source(self) -> None:
        """Make the source's tables and its customers."""
        with self.engine.begin() as connection:
            connection.exec_driver_sql(
                "CREATE TABLE customers (id INT PRIMARY KEY, name TEXT NOT NULL, region TEXT NOT NULL)"
            )
            connection.exec_driver_sql(
                "CREATE TABLE orders (id INT PRIMARY KEY, customer_id INT NOT NULL REFERENCES customers, "
                "cents INT NOT NULL, ordered_at TIMESTAMP(3) NOT NULL DEFAULT (clock_timestamp() AT TIME ZONE 'UTC'))"
            )
            for each in range(CUSTOMERS):
                connection.exec_driver_sql(
                    "INSERT INTO customers VALUES (%s, %s, %s)",
                    (each, f"Customer {each}", REGIONS[each % len(REGIONS)]),
                )

    def _make_topics(self) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

        names = (plan.CUSTOMERS, plan.ORDERS, plan.ENRICHED, plan.TOTALS)
        topics = [NewTopic(name, num_partitions=1, replication_factor=1) for name in names]
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for topic, future in admin.create_topics(topics).items():
            try:
                future.result(START_SECONDS_MAX)
            except KafkaException as error:
                raise DemoError(f"topic {topic} could not be created: {error}") from error

    def _bucket_client(self) -> Any:
        import boto3

        session = boto3.session.Session(KEY_ID, SECRET, region_name=REGION)
        return session.client("s3", endpoint_url=self.s3_url)

    def _make_bucket(self) -> bool:
        self._bucket_client().create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        return True

    def _configure(self) -> None:
        """Create the four connectors over REST."""
        from sqlalchemy.engine import make_url

        url = make_url(self.url)
        database = {
            "connection.url": f"jdbc:postgresql://{url.host}:{url.port}/{url.database}",
            "connection.user": url.username or "",
            "connection.password": url.password or "",
        }
        source = {
            **database,
            "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
            "mode": "incrementing",
            "incrementing.column.name": "id",
            "topic.prefix": "shop-",
            "poll.interval.ms": "200",
            "exactly.once.support": "required",
            "transforms": "key,plain",
            "transforms.key.type": "org.apache.kafka.connect.transforms.ValueToKey",
            "transforms.plain.type": "org.apache.kafka.connect.transforms.ExtractField$Key",
        }
        sink = {
            **database,
            "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
            "topics": plan.TOTALS,
            "table.name.format": "region_totals",
            "auto.create": "true",
            "insert.mode": "upsert",
            "pk.mode": "record_value",
            "pk.fields": "region,window_start",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "consumer.override.isolation.level": "read_committed",
            "consumer.override.metadata.max.age.ms": "1000",
        }
        s3 = {
            "connector.class": "io.confluent.connect.s3.S3SinkConnector",
            "topics": plan.ENRICHED,
            "flush.size": str(FLUSH_SIZE),
            "s3.bucket.name": BUCKET,
            "s3.region": REGION,
            "store.url": self.s3_url,
            "s3.path.style.access.enabled": "true",
            "aws.access.key.id": KEY_ID,
            "aws.secret.access.key": SECRET,
            "storage.class": "io.confluent.connect.s3.storage.S3Storage",
            "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
            "consumer.override.isolation.level": "read_committed",
            "consumer.override.metadata.max.age.ms": "1000",
        }
        for table, key in (("customers", "id"), ("orders", "customer_id")):
            own = {"table.whitelist": table, "transforms.key.fields": key, "transforms.plain.field": key}
            self._create(f"source-{table}", {**source, **own})
        self._create("sink-totals", sink)
        self._create("sink-s3", s3)

    def _create(self, name: str, config: Mapping[str, str]) -> None:
        self._await(lambda: created(self.rest, name, config), f"connector {name}")

    # The way

    def _write_orders(self) -> None:
        """Write the orders into the source, as its users would."""
        chance = random.Random(7)
        for each in range(ORDERS):
            with self.engine.begin() as connection:
                connection.exec_driver_sql(
                    "INSERT INTO orders (id, customer_id, cents) VALUES (%s, %s, %s)",
                    (each, chance.randrange(CUSTOMERS), chance.randrange(100, 10_000)),
                )
            time.sleep(WRITING_SECONDS / ORDERS)
        self.written.set()

    def _follow(self) -> None:
        """Show what happens and kill parts on the way, until everything has arrived or time is up."""
        from rich.live import Live

        kills = [(ORDERS // 4, self.worker), (ORDERS // 2, self.streams), (ORDERS * 3 // 4, self.worker)]
        threading.Thread(target=self._write_orders, daemon=True).start()
        begun = time.monotonic()
        shown = Live(console=self.console, auto_refresh=False) if self.console.is_terminal else None
        with shown or contextlib.nullcontext():
            while True:
                counts = self._counts()
                if kills and counts["orders written"] >= kills[0][0] and kills[0][1].state() == "ready":
                    part = kills.pop(0)[1]
                    self._tell(f"{time.monotonic() - begun:5.1f} s: killed {part.name} with kill -9")
                    part.kill()
                for part in (self.worker, self.streams):
                    part.supervise()
                if shown is not None:
                    shown.update(self._table(counts), refresh=True)
                arrived = counts["orders in S3"] >= ORDERS and counts["orders in totals"] >= ORDERS
                if self.written.is_set() and arrived and not kills:
                    break
                if time.monotonic() - begun > RUN_SECONDS_MAX:
                    raise DemoError(f"not everything arrived within {RUN_SECONDS_MAX:.0f} s: {counts}")
                time.sleep(LOOK_SECONDS)
        self.console.print(self._table(counts))

    def _tell(self, text: str) -> None:
        self.events.append(text)
        if not self.console.is_terminal:
            self.console.print(text)

    def _counts(self) -> dict[str, int]:
        return {
            "orders written": self._sql("SELECT count(*) FROM orders"),
            "orders in their topic": self._records(plan.ORDERS),
            "orders with customers": self._records(plan.ENRICHED),
            "orders in totals": self._sql("SELECT coalesce(sum(orders), 0) FROM region_totals"),
            "orders in S3": len(self._objects()) * FLUSH_SIZE,
        }

    def _sql(self, text: str) -> int:
        from sqlalchemy.exc import SQLAlchemyError

        try:
            with self.engine.connect() as connection:
                return int(connection.exec_driver_sql(text).scalar_one())
        except SQLAlchemyError:
            return 0  # the sink has not made its table yet

    def _records(self, topic: str) -> int:
        """Return the offset behind a topic's last committed record, the markers of transactions included."""
        from ottla.base import TopicPartition
        from ottla.client import LATEST, BlockingClient, Isolation

        place = TopicPartition(topic, 0)
        with BlockingClient(self.bootstrap) as client:
            return int(client.list_offsets({place: LATEST}, isolation=Isolation.READ_COMMITTED)[place].offset)

    def _objects(self) -> list[str]:
        found = self._bucket_client().list_objects_v2(Bucket=BUCKET)
        return [each["Key"] for each in found.get("Contents", ())]

    def _table(self, counts: Mapping[str, int]) -> Table:
        from rich.table import Table

        table = Table("part", "state", "starts", title="From PostgreSQL to PostgreSQL and S3")
        for part in (self.worker, self.streams, self.s3):
            table.add_row(part.name, part.state(), str(part.starts))
        table.add_section()
        for name, count in counts.items():
            table.add_row(name, f"{count:,}", "")
        if self.events:
            table.add_section()
            table.add_row("\n".join(self.events), "", "")
        return table

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while not condition():
            if time.monotonic() > deadline:
                raise DemoError(f"{what}: not there after {START_SECONDS_MAX:.0f} s")
            time.sleep(LOOK_SECONDS)
        self.console.print(f"Ready: {what}")

    def _tails(self) -> str:
        """Return the last lines of the parts' output."""
        parts = (self.worker, self.streams)
        return "\n".join(
            f"{part.name}:\n{part.log.read_text(errors='replace')[-1500:]}" for part in parts if part.log.exists()
        )

    # The comparison

    def _compare(self) -> bool:
        """Compare the source with both destinations; says what differs."""
        window_ms = plan.WINDOW_SECONDS * 1000
        stamp = "cast(extract(epoch FROM ordered_at) * 1000 AS BIGINT)"
        joined = "FROM orders JOIN customers ON customers.id = orders.customer_id"
        wanted_totals = self._rows(
            f"SELECT region, {stamp} / {window_ms} * {window_ms} AS begins, count(*), sum(cents) {joined} GROUP BY 1, 2"
        )
        totals = self._rows("SELECT region, window_start, orders, cents FROM region_totals")
        wanted_orders = self._rows(f"SELECT orders.id, customer_id, cents, {stamp}, name, region {joined}")
        fields = ("id", "customer_id", "cents", "ordered_at", "customer", "region")
        orders = [tuple(each[name] for name in fields) for each in self._s3_rows()]
        same_totals = sorted(totals) == sorted(wanted_totals)
        same_orders = sorted(orders) == sorted(wanted_orders)
        for what, same, count in (
            ("totals of regions and windows in the destination's table", same_totals, len(wanted_totals)),
            ("orders with their customers in S3", same_orders, len(wanted_orders)),
        ):
            verdict = "[green]all equal to the source[/green]" if same else "[red]NOT equal to the source[/red]"
            self.console.print(f"{count:,} {what}: {verdict}")
        return same_totals and same_orders

    def _rows(self, text: str) -> list[tuple[Any, ...]]:
        with self.engine.connect() as connection:
            rows = connection.exec_driver_sql(text).all()
        return [tuple(each if isinstance(each, str) else int(each) for each in row) for row in rows]

    def _s3_rows(self) -> Iterator[dict[str, Any]]:
        client = self._bucket_client()
        for key in self._objects():
            for line in client.get_object(Bucket=BUCKET, Key=key)["Body"].read().splitlines():
                yield json.loads(line)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
