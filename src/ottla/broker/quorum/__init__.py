"""The metadata quorum on this node: `driver` moves the core of `raft`, with its log, snapshots, peers and images."""
