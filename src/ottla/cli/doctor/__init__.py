"""What `ottla doctor` asks: addresses, the cluster, this machine, replication; and how it says what it found."""
