"""The machine of hostile values: whatever takes strangers' values takes each of them, in processes that are watched."""
