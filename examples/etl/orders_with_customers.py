"""The Streams application of `make demo-cdc`: two captured tables joined as tables, each order with its customer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.streams import StreamsBuilder

__all__ = ["CUSTOMERS", "JOINED", "ORDERS", "build", "settings"]

CUSTOMERS, ORDERS, JOINED = "shop.public.customers", "shop.public.orders", "orders-with-customers"

settings = {
    "application.id": "demo-cdc",
    "execution": "continuous",
    "processing.guarantee": "exactly_once_v2",
    "commit.interval.ms": "200",
}


def _customer(order: dict[str, Any]) -> int:
    customer: int = order["customer_id"]
    return customer


def _joined(order: dict[str, Any], customer: dict[str, Any] | None) -> dict[str, Any] | None:
    if customer is None:
        return None
    return {"cents": order["cents"], "customer": customer["name"], "region": customer["region"]}


def build(builder: StreamsBuilder) -> None:
    """Say what becomes of the topics; a row that is deleted on either side takes its joined rows with it.

    An inner join by foreign key, Kafka's own too, keeps a joined row where its customer is deleted while an answer about the
    order's last update is still on its way; a left join that makes nothing of no customer asks again, and does not.
    """
    customers = builder.table(CUSTOMERS, key_serde="json", value_serde="json")
    orders = builder.table(ORDERS, key_serde="json", value_serde="json")
    orders.left_join(customers, _joined, foreign_key=_customer, value_serde="json").to_stream().to(
        JOINED, key_serde="json", value_serde="json"
    )
