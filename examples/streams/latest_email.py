"""Latest e-mail address by user: a table, in which a record replaces what its key said before, and null deletes it.

A second table counts the users of each provider: when a user changes, the old provider loses one and the new one gains one.
"""

from ottla.streams import StreamsBuilder

builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
emails = builder.table("user-emails", materialized="email-by-user")
emails.to_stream().to("latest-emails")


def by_provider(user: str, email: str) -> tuple[str, str]:
    """Return a row of the new table: provider and user."""
    return email.rpartition("@")[2], user


emails.group_by(by_provider).count(materialized="users-by-provider").to_stream().to("providers", value_serde="long")
