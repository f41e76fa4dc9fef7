"""Who may ask, as the settings say: names with passwords, bearers of tokens, and whether ACLs decide what they may do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ottla.base import ConfigError
from ottla.http import BasicLogins
from ottla.registry.bearer import BearerSettings, bearer_settings
from ottla.security import SslRules

__all__ = ["AUTHORIZER", "Access", "access_of"]

METHOD, REALM, ROLES = "authentication.method", "authentication.realm", "authentication.roles"
LOGIN_CONFIG = "java.security.auth.login.config"
"""The JVM's property that names the JAAS file: a key here, or in `SCHEMA_REGISTRY_OPTS` as for Confluent's."""
AUTHORIZER, SUPER_USERS = "confluent.schema.registry.authorizer.class", "confluent.topic.acl.super.users"
AUTHORIZERS = ("SimpleTopicAclAuthorizer", "TopicAclAuthorizer")
CERTIFICATE_RULES = "auth.ssl.principal.mapping.rules"
_COMMENT = re.compile(r"/\*.*?\*/|^\s*(?://|#).*?$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r'\bfile\s*=\s*(?:"([^"]*)"|([^\s;]+))')
_LINE = re.compile(r"\s*([^:=#\s][^:=]*?)\s*[:=]\s*([^,]*?)\s*(?:,(.*))?")


@dataclass(frozen=True, slots=True)
class Access:
    """Names with their passwords; None asks nobody for one."""

    logins: BasicLogins | None = None
    realm: str = ""
    bearer: BearerSettings | None = None
    """Whose tokens are taken."""
    certificate_rules: str = "DEFAULT"
    """What user a client's certificate stands for, where nobody logs in."""
    is_authorized: bool = False
    """Whether the cluster's ACLs say who may use which subject."""
    super_users: frozenset[str] = frozenset()

    @property
    def asks(self) -> bool:
        """Whether who asks has to log in."""
        return self.logins is not None or self.bearer is not None

    @property
    def told(self) -> str:
        """Who may ask, in words for the log."""
        ways = (["a login"] if self.logins else []) + (["a token"] if self.bearer else [])
        rights = ", with the rights that the cluster's ACLs give" if self.is_authorized else ""
        return ("by " + " or ".join(ways) if ways else "everybody who reaches it") + rights

    def admits(self, authorization: str | None) -> bool:
        """Return whether an `Authorization` header is of somebody who may ask."""
        return self.logins is None or self.logins.admit(authorization)


def access_of(properties: Mapping[str, str], environment: Mapping[str, str]) -> Access:
    """Return who may ask; raises ConfigError for what cannot be honoured."""
    given = properties.get(METHOD, "NONE").upper().split(",")
    methods = {each.strip() for each in given} - {"", "NONE"}
    if not methods <= {"BASIC", "BEARER"}:
        raise ConfigError(METHOD, properties.get(METHOD), "BASIC, BEARER, both with a comma, or NONE")
    basic = _basic(properties, environment) if "BASIC" in methods else Access()
    rules = properties.get(CERTIFICATE_RULES, "").strip() or "DEFAULT"
    SslRules(rules)
    return replace(
        basic,
        bearer=bearer_settings(properties) if "BEARER" in methods else None,
        certificate_rules=rules,
        is_authorized=_is_authorized(properties),
        super_users=_super_users(properties.get(SUPER_USERS, "")),
    )


def _is_authorized(properties: Mapping[str, str]) -> bool:
    name = properties.get(AUTHORIZER, "").strip()
    if name and name.rpartition(".")[2] not in AUTHORIZERS:
        raise ConfigError(AUTHORIZER, name, f"a class that is known here: {' or '.join(AUTHORIZERS)}")
    return bool(name)


def _super_users(text: str) -> frozenset[str]:
    """Return principals; a name alone is a user's."""
    names = [each.strip() for each in text.split(";") if each.strip()]
    return frozenset(each if ":" in each else f"User:{each}" for each in names)


def _basic(properties: Mapping[str, str], environment: Mapping[str, str]) -> Access:
    realm = properties.get(REALM, "SchemaRegistry-Props").strip()
    place = properties.get(LOGIN_CONFIG) or _of_java(environment.get("SCHEMA_REGISTRY_OPTS", ""))
    if not place:
        raise ConfigError(LOGIN_CONFIG, "", f"the path of a JAAS file with a section {realm}")
    text = _COMMENT.sub("", _read(LOGIN_CONFIG, place))
    section = re.search(rf"(?:^|[\s;}}]){re.escape(realm)}\s*\{{([^}}]*)\}}", text)
    file = None if section is None else _FILE.search(section[1])
    if file is None:
        raise ConfigError(
            LOGIN_CONFIG, place, f'a section {realm} with file="…", a file of lines like name: password,role'
        )
    return Access(BasicLogins(_passwords(file[1] or file[2], properties.get(ROLES, ""))), realm)


def _passwords(place: str, roles: str) -> dict[str, str]:
    """Return the names of a file with one of the roles, and their passwords; without roles, all of them."""
    wanted = {each.strip() for each in roles.split(",") if each.strip()} - {"*", "**"}
    found = {}
    for line in _read(LOGIN_CONFIG, place).splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        if match[2].startswith(("MD5:", "CRYPT:", "OBF:")):
            raise ConfigError(LOGIN_CONFIG, place, f"passwords in the clear: that of {match[1]} is not")
        own = {each.strip() for each in (match[3] or "").split(",")}
        if not wanted or own & wanted:
            found[match[1]] = match[2]
    if not found:
        raise ConfigError(LOGIN_CONFIG, place, "a file with lines like name: password,role for these roles")
    return found


def _read(key: str, place: str) -> str:
    try:
        return Path(place).read_text()
    except (OSError, ValueError) as error:
        raise ConfigError(key, place, "a file that can be read") from error


def _of_java(options: str) -> str | None:
    match = re.search(rf"-D{re.escape(LOGIN_CONFIG)}=(\S+)", options)
    return match[1] if match else None
