"""`ottla sql migrations`: numbered files of statements, applied to a SQL server once each, as ksqlDB's tool applies them.

What has been applied stands in a stream and a table on the server, so that every project over it knows. The names, states
and checksums are ksqlDB's: a project that was begun with the one tool goes on with the other.
"""
