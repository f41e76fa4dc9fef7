"""`ottla sql` as people type it: statements to a server, answers as tables, queries until Ctrl-C."""
