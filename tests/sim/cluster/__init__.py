"""Simulated clusters: several whole nodes, each its own process, disk and clock, under one seeded loop and network.

`world.py` builds the cluster that a seed describes, runs clients and faults against it and looks at everything in the end;
`host.py` is one machine; `inspection.py` looks into the nodes while they run; the other files are clients.
"""
