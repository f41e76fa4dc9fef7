"""A group of workers: what they tell each other when it rebalances, and how the leader divides the work (KIP-415). Pure."""

from ottla.connect.assignment.balancing import Balance, Division, Work, divide, divide_eagerly, reminded
from ottla.connect.assignment.protocol import (
    CONFIG_MISMATCH,
    Assignment,
    GroupProtocol,
    WorkerState,
    decode_assignment,
    decode_worker_state,
    encode_assignment,
    encode_worker_state,
)

__all__ = [
    "CONFIG_MISMATCH",
    "Assignment",
    "Balance",
    "Division",
    "GroupProtocol",
    "Work",
    "WorkerState",
    "decode_assignment",
    "decode_worker_state",
    "divide",
    "divide_eagerly",
    "encode_assignment",
    "encode_worker_state",
    "reminded",
]
