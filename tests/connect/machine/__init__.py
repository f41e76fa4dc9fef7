"""The machine of a Connect cluster: workers' requests at every await, in virtual time; `docs/design/workers-requests.md`."""
