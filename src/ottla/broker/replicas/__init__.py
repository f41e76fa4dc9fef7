"""The partitions that this broker holds: led, followed, fetched, kept on its disks; and what a failed disk costs."""
