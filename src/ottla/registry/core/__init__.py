"""What a schema registry decides: the fold of its records, and what is answered and appended for each request. Pure."""

from ottla.registry.core.decision import NO_LEVEL, Decision, Wanted
from ottla.registry.core.deletion import delete_context, delete_subject, delete_version
from ottla.registry.core.errors import RegistryError
from ottla.registry.core.records import Noop, Record, StoredSchema, Unreadable, decode, encode, reference_json
from ottla.registry.core.registration import compared, look_up, register, registered
from ottla.registry.core.settings import (
    LEVELS,
    config_answer,
    config_of,
    delete_config,
    delete_mode,
    level_of,
    mode_answer,
    set_config,
    set_mode,
)
from ottla.registry.core.state import State

__all__ = [
    "LEVELS",
    "NO_LEVEL",
    "Decision",
    "Noop",
    "Record",
    "RegistryError",
    "State",
    "StoredSchema",
    "Unreadable",
    "Wanted",
    "compared",
    "config_answer",
    "config_of",
    "decode",
    "delete_config",
    "delete_context",
    "delete_mode",
    "delete_subject",
    "delete_version",
    "encode",
    "level_of",
    "look_up",
    "mode_answer",
    "reference_json",
    "register",
    "registered",
    "set_config",
    "set_mode",
]
