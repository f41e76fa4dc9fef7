"""Transactions: who may write under a transactional id, and how each transaction ends; the coordinator as pure decisions.

A shard is the state of one partition of `__transaction_state`, folded from its records. Decisions take a request and return
the transaction as it becomes and an answer; nothing here waits, knows the time or writes a marker.
"""

from ottla.transactions.adding import add_partitions, verify_partitions
from ottla.transactions.decision import Decision, DecisionContext, Outcome
from ottla.transactions.ending import SECOND_PROTOCOL, complete, end_transaction, expired, fence
from ottla.transactions.initialising import Identity, initialise
from ottla.transactions.listing import describe, list_transactions, unknown_states
from ottla.transactions.shard import Shard, State, apply
from ottla.transactions.timeouts import OpenTransactions
from ottla.transactions.transaction import Status, Transaction

__all__ = [
    "SECOND_PROTOCOL",
    "Decision",
    "DecisionContext",
    "Identity",
    "OpenTransactions",
    "Outcome",
    "Shard",
    "State",
    "Status",
    "Transaction",
    "add_partitions",
    "apply",
    "complete",
    "describe",
    "end_transaction",
    "expired",
    "fence",
    "initialise",
    "list_transactions",
    "unknown_states",
    "verify_partitions",
]
