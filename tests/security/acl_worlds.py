"""Random entries and questions about them, for the models that our authorizer is held against."""

from __future__ import annotations

from hypothesis import strategies as st

from ottla.security import Acl, AclFilter, Operation, PatternType, PermissionType, Resource

__all__ = ["PRINCIPALS", "Question", "acls", "filters", "questions"]

NAMES = ("a", "ab", "abc", "b", "ba", "*", "-", "a-b", "é", "a\U0001f600")
"""None begins with a character before `*`: Kafka's own search for those does not end (see `test_authorizer_peer.py`)."""
PRINCIPALS = ("User:a", "User:b", "User:CN=x,O=y", "Group:a")
HOSTS = ("10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1")
RESOURCES = (Resource.TOPIC, Resource.GROUP, Resource.USER)
OPERATIONS = (
    *(Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE),
    *(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
)

Question = tuple[str, str, Operation, Resource, str | None]
"""Principal, address, operation, type of resource, its name or None: on some resource?"""

acls = st.builds(
    Acl,
    st.sampled_from(RESOURCES),
    st.sampled_from(NAMES),
    st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
    st.sampled_from((*PRINCIPALS, "User:*")),
    st.sampled_from((*HOSTS, "*", "*")),
    st.sampled_from((*OPERATIONS, Operation.ALL)),
    st.sampled_from((PermissionType.ALLOW, PermissionType.DENY)),
)

filters = st.builds(
    AclFilter,
    st.sampled_from((*RESOURCES, Resource.ANY)),
    st.sampled_from((*NAMES, None)),
    st.sampled_from((PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED)),
    st.sampled_from((*PRINCIPALS, "User:*", None, None)),
    st.sampled_from((*HOSTS, "*", None, None)),
    st.sampled_from((*OPERATIONS, Operation.ALL, Operation.ANY, Operation.ANY)),
    st.sampled_from((PermissionType.ALLOW, PermissionType.DENY, PermissionType.ANY)),
)


def questions(*, somewhere: bool = True) -> st.SearchStrategy[Question]:
    """Draw questions; with `somewhere` also those about some resource of a type."""
    named = st.tuples(
        st.sampled_from(PRINCIPALS),
        st.sampled_from(HOSTS),
        st.sampled_from(OPERATIONS),
        st.sampled_from(RESOURCES),
        st.sampled_from((*NAMES, "abcd", "c")),
    )
    if not somewhere:
        return named
    on_some = st.tuples(
        st.sampled_from(PRINCIPALS),
        st.sampled_from(HOSTS),
        st.sampled_from((Operation.READ, Operation.WRITE, Operation.DELETE)),
        st.sampled_from(RESOURCES),
        st.none(),
    )
    return named | on_some
