"""Deterministic simulation: whole nodes under seeded time, network, disk, crashes and load.

One seed makes one world (`world.py`): a virtual-time event loop (`loop.py`), a network of in-memory connections
(`network.py`), disks that forget what was not fsynced (`disk.py`), processes that can be killed between any two
callbacks or inside any write (`process.py`), clients, faults and a list of invariants. The same seed gives the same
trace, byte for byte. `make sim SEED=n SECONDS=s` runs worlds until the time is up and prints the seed of each failure.
"""
