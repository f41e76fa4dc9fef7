"""Sample data for `ottla dev`: two connectors write orders and page views, and SQL's queries count them.

What is there already, from an earlier run in the same folder, goes on; nothing is made twice.
"""

from __future__ import annotations

import asyncio
import time

from ottla.admin import RestError, Worker
from ottla.base import OttlaError
from ottla.cli.dev.places import Places
from ottla.cli.sql_shell.client import ServerError, SqlClient

__all__ = ["CONNECTORS", "STATEMENTS", "make_samples"]

CONNECTORS = {
    "orders": {"kafka.topic": "orders", "quickstart": "orders", "rate": "20"},
    "pageviews": {"kafka.topic": "pageviews", "quickstart": "pageviews", "rate": "50"},
}
STATEMENTS = """
CREATE STREAM IF NOT EXISTS orders WITH (kafka_topic='orders', value_format='AVRO');
CREATE STREAM IF NOT EXISTS pageviews WITH (kafka_topic='pageviews', value_format='AVRO');
CREATE TABLE IF NOT EXISTS sales_by_city AS
    SELECT address->city AS city, COUNT(*) AS orders, ROUND(SUM(orderunits * price), 2) AS total
    FROM orders GROUP BY address->city EMIT CHANGES;
CREATE TABLE IF NOT EXISTS views_per_page AS
    SELECT pageid, COUNT(*) AS views FROM pageviews GROUP BY pageid EMIT CHANGES;
"""
PARTITIONS = 3
WRITTEN_SECONDS_MAX = 60.0


async def make_samples(places: Places) -> str:
    """Begin to write, and to count what is written; returns what there is to see. Raises OttlaError."""
    await asyncio.to_thread(_make_topics, places)
    worker = Worker(places.url("connect"))
    for name, given in CONNECTORS.items():
        body = {"connector.class": "GeneratorSource", "tasks.max": "1", **given}
        await asyncio.to_thread(worker.connector, "PUT", name, "/config", body)
    await _wait_for_schemas(places)
    return await asyncio.to_thread(_ask_sql, places)


def _make_topics(places: Places) -> None:
    from ottla.admin import TopicToCreate, create_topic
    from ottla.base import ErrorCode, KafkaError
    from ottla.client import BlockingClient

    with BlockingClient(places.bootstrap) as client:
        for each in CONNECTORS.values():
            try:
                create_topic(client, TopicToCreate(each["kafka.topic"], partitions=PARTITIONS))
            except KafkaError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise


async def _wait_for_schemas(places: Places) -> None:
    """Wait until the connectors have registered their schemas, of which SQL makes columns."""
    registry = Worker(places.url("registry"))
    wanted = {f"{each['kafka.topic']}-value" for each in CONNECTORS.values()}
    until = time.monotonic() + WRITTEN_SECONDS_MAX
    while not wanted <= set(await asyncio.to_thread(registry.ask, "GET", "/subjects")):
        if time.monotonic() > until:
            raise OttlaError(
                f"no sample data after {WRITTEN_SECONDS_MAX:.0f} s: see ottla connect list {places.url('connect')}"
            )
        await asyncio.sleep(0.1)


def _ask_sql(places: Places) -> str:
    try:
        SqlClient(places.url("sql")).execute(STATEMENTS)
    except ServerError as error:
        raise RestError(f"the sample queries were refused: {error}") from error
    return f"topics orders and pageviews; ottla sql {places.url('sql')} -e 'SELECT * FROM sales_by_city;'"
