"""Bank balance: a stream, in which each record counts. What an account holds is the sum of all its transactions."""

from dataclasses import dataclass

from ottla.streams import StreamsBuilder, agg


@dataclass(frozen=True)
class Transaction:
    """Money in (positive) or out (negative) of the account that is the record's key."""

    cents: int
    text: str = ""


builder = StreamsBuilder(default_key_serde="string")
(
    builder.stream("transactions", value_serde=Transaction)
    .group_by_key()
    .aggregate(agg.sum("value.cents"), materialized="balance")
    .to_stream()
    .to("balances")
)
