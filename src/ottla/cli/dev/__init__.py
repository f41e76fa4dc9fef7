"""`ottla dev`: a broker and everything around it on this machine, with sample data, for one developer.

`places` chooses ports, `services` starts and stops what serves, `samples` makes data flow.
"""
