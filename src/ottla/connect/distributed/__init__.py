"""Distributed workers: a group of processes that share connectors and tasks, and keep what they know in three topics.

`DistributedHerder` is one worker's; give it clients, a runner for its tasks and a way to ask other workers.
"""

from ottla.connect.distributed.herder import DistributedHerder
from ottla.connect.distributed.settings import REBALANCE_DELAY_MS, DistributedSettings, StorageTopic

__all__ = ["REBALANCE_DELAY_MS", "DistributedHerder", "DistributedSettings", "StorageTopic"]
