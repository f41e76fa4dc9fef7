"""What is answered where a request cannot be carried out: Confluent's error codes and words."""

from __future__ import annotations

from ottla.base import OttlaError

__all__ = [
    "RegistryError",
    "context_not_empty",
    "forwarding_failed",
    "incompatible",
    "invalid_level",
    "invalid_mode",
    "invalid_rule_set",
    "invalid_schema",
    "invalid_subject",
    "invalid_version",
    "no_level",
    "no_mode",
    "not_permitted",
    "reference_exists",
    "schema_not_found",
    "store_failed",
    "subject_not_deleted",
    "subject_not_found",
    "subject_was_deleted",
    "timed_out",
    "too_large",
    "unknown_leader",
    "version_not_deleted",
    "version_not_found",
    "version_was_deleted",
]


class RegistryError(OttlaError):
    """An error as clients get it: a code of five digits, whose first three are HTTP's status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        """HTTP's status."""
        return self.code // 100 if self.code >= 10_000 else self.code


def subject_not_found(subject: str) -> RegistryError:
    """Return 40401."""
    return RegistryError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> RegistryError:
    """Return 40402."""
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(which: int | str | None = None) -> RegistryError:
    """Return 40403."""
    return RegistryError(40403, "Schema not found" if which is None else f"Schema {which} not found")


def subject_was_deleted(subject: str) -> RegistryError:
    """Return 40404."""
    return RegistryError(40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently")


def subject_not_deleted(subject: str) -> RegistryError:
    """Return 40405."""
    return RegistryError(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_was_deleted(subject: str, version: int) -> RegistryError:
    """Return 40406."""
    words = f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently"
    return RegistryError(40406, words)


def version_not_deleted(subject: str, version: int) -> RegistryError:
    """Return 40407."""
    words = f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    return RegistryError(40407, words)


def no_level(subject: str) -> RegistryError:
    """Return 40408."""
    return RegistryError(40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def no_mode(subject: str) -> RegistryError:
    """Return 40409."""
    return RegistryError(40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(subject: str, details: str) -> RegistryError:
    """Return 40901."""
    words = f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: '
    return RegistryError(40901, words + details)


def invalid_schema(words: str) -> RegistryError:
    """Return 42201."""
    return RegistryError(42201, words)


def invalid_version(version: str) -> RegistryError:
    """Return 42202."""
    words = 'is not a valid version id. Allowed values are between [1, 2^31-1] and the string "latest"'
    return RegistryError(42202, f"The specified version '{version}' {words}")


def invalid_level() -> RegistryError:
    """Return 42203."""
    levels = "none, backward, forward, full, backward_transitive, forward_transitive, and full_transitive"
    return RegistryError(42203, f"Invalid compatibility level. Valid values are {levels}")


def invalid_mode() -> RegistryError:
    """Return 42204."""
    return RegistryError(42204, "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, and IMPORT.")


def not_permitted(words: str) -> RegistryError:
    """Return 42205."""
    return RegistryError(42205, words)


def reference_exists(subject: str, version: int) -> RegistryError:
    """Return 42206."""
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return RegistryError(42206, f"One or more references exist to the schema {key}.")


def invalid_subject(subject: str) -> RegistryError:
    """Return 42208."""
    return RegistryError(42208, f"The specified subject '{subject}' is not a valid.")


def too_large(words: str) -> RegistryError:
    """Return 42209."""
    return RegistryError(42209, words)


def invalid_rule_set(words: str) -> RegistryError:
    """Return 42210."""
    return RegistryError(42210, words)


def context_not_empty(context: str) -> RegistryError:
    """Return 42211."""
    return RegistryError(42211, f"The specified context '{context}' is not empty.")


def store_failed(words: str) -> RegistryError:
    """Return 50001."""
    return RegistryError(50001, words)


def timed_out(words: str) -> RegistryError:
    """Return 50002."""
    return RegistryError(50002, words)


def forwarding_failed(words: str) -> RegistryError:
    """Return 50003."""
    return RegistryError(50003, words)


def unknown_leader(words: str) -> RegistryError:
    """Return 50004."""
    return RegistryError(50004, words)
