"""The Streams application of `make demo-etl`: orders with their customers, and what each region orders per window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.streams import StreamsBuilder, Windowed

__all__ = ["CUSTOMERS", "ENRICHED", "ORDERS", "TOTALS", "WINDOW_SECONDS", "build", "settings"]

CUSTOMERS, ORDERS, ENRICHED, TOTALS = "shop-customers", "shop-orders", "orders-enriched", "region-totals"
WINDOW_SECONDS = 60

settings = {"application.id": "demo-etl", "processing.guarantee": "exactly_once_v2", "commit.interval.ms": "500"}


class _OrderedAt:
    """An order's own time, in milliseconds, which is when it was written into the database."""

    def extract(self, record: Any, partition_time: int) -> int:
        """Return the time; see Streams' extractors."""
        return int(record.value["ordered_at"])


def _enriched(order: dict[str, Any], customer: dict[str, Any]) -> dict[str, Any]:
    return {**order, "customer": customer["name"], "region": customer["region"]}


def _region(key: Any, order: dict[str, Any]) -> str:
    region: str = order["region"]
    return region


def _nothing() -> dict[str, int]:
    return {"orders": 0, "cents": 0}


def _added(order: dict[str, Any], total: dict[str, int]) -> dict[str, int]:
    return {"orders": total["orders"] + 1, "cents": total["cents"] + order["cents"]}


def _as_row(window: Windowed[str], total: dict[str, int]) -> tuple[str, dict[str, Any]]:
    row = {"region": window.key, "window_start": window.start_ms, **total}
    return f"{window.key}@{window.start_ms}", row


def build(builder: StreamsBuilder) -> None:
    """Say what becomes of the topics."""
    from ottla.streams import Materialized, TimeWindows

    customers = builder.table(CUSTOMERS, key_serde="json", value_serde="json")
    orders = builder.stream(ORDERS, key_serde="json", value_serde="json", timestamp_extractor=_OrderedAt())
    enriched = orders.join(customers, _enriched, value_serde="json")
    enriched.to(ENRICHED, key_serde="json", value_serde="json")
    (
        enriched.group_by(_region, key_serde="string", value_serde="json")
        .windowed_by(TimeWindows.of_size(seconds=WINDOW_SECONDS, grace="1h"))
        .aggregate(_nothing, _added, materialized=Materialized("totals", value_serde="json"))
        .to_stream()
        .map(_as_row, key_serde="string", value_serde="json")
        .to(TOTALS, key_serde="string", value_serde="json")
    )
