"""Continuous mode of Streams: the engine in long-running Spark tasks, record by record.

A *host* is one long Spark task with one event loop. It has works (`ottla.streams.placing`), each an `Executor` for one
partition of one sub-topology; it fetches, processes, writes results and changelogs, and commits (`ottla.streams.commit`).
`plan`, `arrivals`, `work`, `fetching`, `writing`, `restoring`, `lane` and `host` are a host's and know no Spark; `service`,
`jobs` and `application` are the driver's: they start hosts, place works and tell how applications stand.
"""
