"""Subjects and the contexts that they are in: `:.ctx:name`, or the plain name in the default context."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.registry.core.errors import invalid_subject

__all__ = [
    "ALL_CONTEXTS",
    "DEFAULT_CONTEXT",
    "EVERYTHING",
    "Subject",
    "checked",
    "context_name",
    "in_context",
    "scope_of",
]

DEFAULT_CONTEXT = "."
ALL_CONTEXTS = ":*:"
"""As a prefix: subjects of every context."""
EVERYTHING = ":.__GLOBAL:"
"""The subject that holds configuration and mode of everything."""
RESERVED = frozenset({"__GLOBAL", "__EMPTY"})
RESERVED_CONTEXTS = frozenset({".__GLOBAL", ".__EMPTY"})


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """A subject; sorted by context first, the default one before the others."""

    context: str
    name: str

    @classmethod
    def of(cls, text: str) -> Subject:
        """Read a name as clients write it."""
        if text.startswith(":."):
            context, _, name = text[1:].partition(":")  # without the second colon it names the context alone
            return cls(context, name)
        return cls(DEFAULT_CONTEXT, text)

    @property
    def is_context(self) -> bool:
        """Whether this stands for a whole context."""
        return not self.name

    def __str__(self) -> str:
        return self.name if self.context == DEFAULT_CONTEXT and self.name else f":{self.context}:{self.name}"

    def beside(self, text: str) -> str:
        """Return the whole name of a subject that something in this one's context refers to."""
        return str(Subject.of(text) if text.startswith(":.") else Subject(self.context, text))


def checked(text: str) -> str:
    """Return a subject's whole name; raises RegistryError for one that cannot be."""
    subject = Subject.of(text)
    wrong = any(ord(each) < 32 or 127 <= ord(each) < 160 for each in text)
    reserved = subject.name in RESERVED or subject.context in RESERVED_CONTEXTS
    if wrong or reserved or not subject.name or text.startswith(":*"):
        raise invalid_subject(text)
    return str(subject)


def context_name(text: str) -> str:
    """Return a context's name from a path or a query: `ctx`, `.ctx` and `:.ctx:` are the same."""
    plain = text.strip(":")
    return plain if plain.startswith(".") else f".{plain}"


def scope_of(text: str) -> str | None:
    """Return what a name of a configuration or a mode means: a subject's whole name, a context, or None for everything."""
    subject = Subject.of(text)
    return None if subject == Subject(DEFAULT_CONTEXT, "") else str(subject)


def in_context(context: str, text: str) -> str:
    """Return a name given under a context's address; one that names a context itself stays."""
    if text.startswith((":.", ":*")) or context == DEFAULT_CONTEXT:
        return text
    return f":{context}:{text}"
