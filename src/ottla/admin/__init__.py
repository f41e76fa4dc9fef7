"""Administration of a cluster, for whoever shows it to people: the command line, and a web console.

Functions ask a cluster and return values, or say first what would change (a frozen plan) and then do it. None of them
prints, reads options or ends the process: what is wrong is an exception with a text. They take a `BlockingClient`, wait for
its answers, and raise `KafkaError` with the broker's code and words where a broker refuses, `AdminError` for what makes no
sense before anybody is asked. Importing this package loads no other room but `base`.
"""

from ottla.admin.errors import AdminError, invalid_request, raise_code, words
from ottla.admin.groups import (
    CONSUMER_PROTOCOL,
    GroupDescription,
    ListedGroup,
    MemberDescription,
    consumer_groups,
    describe_group,
    list_groups,
)
from ottla.admin.lists import by_topic, duplicates
from ottla.admin.transactions import (
    ListedTransaction,
    PartitionProducer,
    TransactionAbort,
    TransactionDescription,
    abort_transaction,
    describe_producers,
    describe_transaction,
    find_hanging_transactions,
    led_partitions,
    list_transactions,
    plan_abort,
    terminate_transaction,
)

__all__ = [
    "CONSUMER_PROTOCOL",
    "AdminError",
    "GroupDescription",
    "ListedGroup",
    "ListedTransaction",
    "MemberDescription",
    "PartitionProducer",
    "TransactionAbort",
    "TransactionDescription",
    "abort_transaction",
    "by_topic",
    "consumer_groups",
    "describe_group",
    "describe_producers",
    "describe_transaction",
    "duplicates",
    "find_hanging_transactions",
    "invalid_request",
    "led_partitions",
    "list_groups",
    "list_transactions",
    "plan_abort",
    "raise_code",
    "terminate_transaction",
    "words",
]
