"""Connect's tasks on Spark: a task is one long-running Spark task, on whichever executor has a slot.

`interface` is what both ends agree on; `run_task` is the executor's end, `SparkTaskRunner` the worker's, and a TCP
connection (`control`, `port`) joins the two.
"""
