"""What of a configuration nobody is shown: one rule for every service, by a value's type, its name and its form. Pure.

A secret is hidden whole; of an address with a login, or a text with a password in it, only that part is hidden. Who reads
a configuration, changes it and puts it back has never seen its secrets: `put_back` takes the marks for what is stored, and
`moved` says whether that would now be sent elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ottla.config.broker_keys import BROKER_KEYS
from ottla.config.consumer_keys import CONSUMER_KEYS
from ottla.config.placeholders import Placeholder, is_placeholder, resolved
from ottla.config.producer_keys import PRODUCER_KEYS
from ottla.config.streams_keys import STREAMS_KEYS
from ottla.config.types import ConfigType

__all__ = ["HIDDEN", "hidden", "hidden_text", "is_secret", "kept_secrets", "moved", "put_back", "shown"]

HIDDEN = "[hidden]"
"""What stands in the place of a secret."""
Values = Mapping[str, str | None]

_DECLARED = frozenset(
    name
    for keys in (BROKER_KEYS, CONSUMER_KEYS, PRODUCER_KEYS, STREAMS_KEYS)
    for name, key in keys.items()
    if key.type is ConfigType.PASSWORD
)
_SECRET_NAME = re.compile(
    r"password|passwd|passphrase|passwort|(?:^|[._-])pwd|(?:^|[._-])pass$|secret|credential|jaas|user[._-]?info"
    r"|(?:^|[._-]|access|api|auth|bearer|refresh|sas|session)token"
    r"|api[._-]?key|access[._-]?key|private[._-]?key|keystore[._-]?key|encryption[._-]?key|authorization",
    re.IGNORECASE,
)
_NO_SECRET_NAME = re.compile(
    r"[._-](?:ms|seconds|minutes|url|uri|urls|endpoint|class|classes|location|path|file|algorithm|iterations|length|type"
    r"|types|name|names|mode|enable|enabled|required|allowed|provider|providers|source|prefix|format|id|size|version|retries"
    r"|timeout|interval|mechanism|protocol)$",
    re.IGNORECASE,
)
_PLAIN_TYPES = ("BOOLEAN", "INT", "SHORT", "LONG", "DOUBLE", "CLASS")
_WHOLE = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----|LoginModule\s+(?:required|requisite|sufficient|optional)\b"
)
_WORDS = (
    r"password|passwd|passphrase|pwd|secret|token|access[_.-]?key|api[_.-]?key|private[_.-]?key|account[_.-]?key"
    r"|credentials?|signature"
)
_ASSIGNED = re.compile(
    rf"((?:{_WORDS}|[?&]sig)[\w.-]{{0,30}}[\"']?\s{{0,3}}=\s{{0,3}})"
    r"(\{[^}]{0,500}\}|\"[^\"]{0,500}\"|'[^']{0,500}'|[\"'{]?[^&;,\s\"')}]+)",
    re.IGNORECASE,
)
_MEMBER = re.compile(rf"((?:{_WORDS})[\w.-]{{0,30}}\"\s{{0,3}}:\s{{0,3}}\")((?:[^\"\\]|\\.)+)", re.IGNORECASE)
_SAID = re.compile(
    rf"((?<!unexpected )(?<!unrecognized )(?:{_WORDS})[\w.-]{{0,30}}[\"']?[ \t]{{0,3}}:[ \t]{{1,3}})"
    r"(?![\"']?\[hidden\])"
    r"(\"(?:[^\"\\]|\\.){1,8000}\"|'(?:[^'\\]|\\.){1,8000}'"
    r"|[\"']?(?=[a-z]{0,200}[^a-z\s,;\"')}\]])[^\s,;\"')}\]]+|[\"']?[a-z]{1,200}(?=\s*(?:[,;\"')}\]\n]|$)))",
    re.IGNORECASE,
)
"""`password: x`. A plain word with others behind it (`ssl.key.password: must not be empty`) is a sentence and no secret."""
_HEADER = re.compile(
    r"((?:authorization|x-api-key|x-auth-token|api-key|cookie)[\"']?\s{0,3}[:=]\s{0,3}[\"']?"
    r"(?:(?:basic|bearer|digest|negotiate)\s{1,3})?)([^\s\"',;]+)",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"(\b(?:[Bb]earer|[Bb]asic)\s{1,3})(?=[a-z._~+/-]{0,200}[A-Z0-9=])([A-Za-z0-9._~+/=-]{8,})")
_PEM = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)")
_JAAS = re.compile(r"[\w.]{0,200}LoginModule\s{1,20}(?:required|requisite|sufficient|optional)\b[^;]*;?")
_TOKEN = re.compile(r"\beyJ[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{4,4000}\.[A-Za-z0-9_-]*")
_THIN = re.compile(r"(:(?:thin|oci8?):[^/@\s]{1,200}/)([^@\s]{1,500})(?=@)", re.IGNORECASE)
_LOGIN = re.compile(r"(\s*(?://)?[^\s:/@]{1,200}:)([^\s@]+)(@[^\s@]+\s*)")
_PUT_AWAY = re.compile("\0([0-9]{1,9})\0")
_PORT = re.compile(r"[0-9]*(?:[,;].*)?", re.DOTALL)
_NO_USERS = ("mailto:", "jdbc:")
_ENDS = re.compile(r"[\s\"'<>]")

_REACHES = re.compile(
    r"url|uri|host|server|bootstrap|registry|proxy|endpoint|addr|class|port|region|location|provider|issuer|broker|dsn"
    r"|domain|protocol|ssl|sasl|tls|jaas|socket|driver|handler|converter|interceptor|callback|jndi|ldap|account|tenant"
    r"|connection|plugin|option|reporter|serializer|\.type$",
    re.IGNORECASE,
)
_TUNING = re.compile(
    r"[._-](?:ms|seconds|id|retries|attempts|size|max|min|bytes|records|enable|enabled)$|^errors\.", re.IGNORECASE
)
_ADDRESS = re.compile(r"://|^(?:[\w.-]{1,253}|\[[\w:.%]{2,60}\]):[0-9]{1,5}(?:,|$)")


def is_secret(name: str, value: str | None = None, declared_type: ConfigType | str | None = None) -> bool:
    """Return whether the whole of a value is a secret; `declared_type` is what its service says of the key."""
    kind = declared_type.name if isinstance(declared_type, ConfigType) else declared_type
    if kind == "PASSWORD" or _is_declared(name):
        return True
    if kind in _PLAIN_TYPES:
        return False
    if _SECRET_NAME.search(name) and not _NO_SECRET_NAME.search(name):
        return True
    return value is not None and _WHOLE.search(value) is not None


def _is_declared(name: str) -> bool:
    """Return whether a name is, or ends with, one that Kafka declares a password (`producer.override.ssl.key.password`)."""
    parts = name.split(".")
    return any(".".join(parts[at:]) in _DECLARED for at in range(max(len(parts) - 8, 0), len(parts)))


def hidden(name: str, value: str | None, declared_type: ConfigType | str | None = None) -> str | None:
    """Return a value as it is shown: without its secret; a placeholder is where one stands, and is shown."""
    if not value or is_placeholder(value):
        return value
    return HIDDEN if is_secret(name, value, declared_type) else hidden_text(value)


def shown(values: Values, types: Mapping[str, ConfigType | str] | None = None) -> dict[str, str | None]:
    """Return a configuration as it is shown."""
    known = types or {}
    return {name: hidden(name, value, known.get(name)) for name, value in values.items()}


def hidden_text(text: str) -> str:
    """Return a text without the passwords, tokens and logins in it: a URL keeps its host and its user."""
    text = _PEM.sub(HIDDEN, text)
    if "LoginModule" in text:  # the pattern looks 200 letters ahead at each letter: seconds for a long text
        text = _JAAS.sub(HIDDEN, text)
    kept: list[str] = []

    if "\0" in text and "${" in text:
        return HIDDEN  # nobody writes so, and it could be taken for what is put away here

    def put_away(placeholder: Placeholder) -> str:
        kept.append(str(placeholder))
        return f"\0{len(kept) - 1}\0"

    text = _without_logins(resolved({"": text}, put_away)[""] or "")
    if "://" not in text:
        addresses = text.split(",") if text.count("@") > 1 else [text]
        text = ",".join(map(_without_plain_login, addresses))
    for pattern in (_THIN, _HEADER, _ASSIGNED, _MEMBER, _SAID, _SCHEME):
        text = pattern.sub(lambda match: match[1] + _mark(match[2]), text)
    return (
        _PUT_AWAY.sub(lambda match: kept[int(match[1])], _TOKEN.sub(HIDDEN, text)) if kept else _TOKEN.sub(HIDDEN, text)
    )


def _mark(secret: str) -> str:
    return secret if _PUT_AWAY.fullmatch(secret) or secret.startswith(HIDDEN) else HIDDEN


def _without_plain_login(address: str) -> str:
    """Return an address that has no scheme without its password."""
    match = _LOGIN.fullmatch(address)
    if match is None or match[1].strip().lower() in _NO_USERS:
        return address
    return f"{match[1]}{_mark(match[2])}{match[3]}"


def _without_logins(text: str) -> str:
    """Return a text whose addresses have no passwords; what has neither `/` nor `:` in it is found in one pass."""
    first, *others = text.split("://")
    found = [first]
    for each in others:
        found.append(_without_login(each, is_web=found[-1].lower().endswith(("http", "https"))))
    return "://".join(found)


def _without_login(rest: str, *, is_web: bool) -> str:
    """Return what follows `://` without its password; one may have `/` and `@` in it."""
    end = match.start() if (match := _ENDS.search(rest)) is not None else len(rest)
    whole = rest[:end]
    authority = re.split(r"[/?#;]", whole, maxsplit=1)[0]
    at = authority.rfind("@")
    if at < 0 and not _PORT.fullmatch(authority.partition(":")[2]):
        at = whole.rfind("@")
    if at < 0 or whole.startswith("["):
        return rest
    user, colon, secret = whole[:at].partition(":")
    if not colon:
        return (_mark(user) if is_web else user) + rest[at:]
    return f"{user}:{_mark(secret) if secret else ''}{rest[at:]}"


def put_back(given: Values, stored: Values, seen: Values) -> tuple[dict[str, str | None], list[str]]:
    """Return a configuration in which marks are what is stored, and the keys of marks that nothing stands behind.

    `seen` is how the stored configuration is shown: only a value that comes back as it was shown is what is stored.
    """
    whole, wrong = {}, []
    for key, value in given.items():
        if value is None or HIDDEN not in value:
            whole[key] = value
        elif stored.get(key) is not None and value == seen.get(key):
            whole[key] = stored[key]
        else:
            whole[key] = value
            wrong.append(key)
    return whole, sorted(wrong)


def kept_secrets(given: Values, stored: Values, whole: Values, seen: Values) -> list[str]:
    """Return the keys whose secrets stay as they are stored without having been given anew."""
    return sorted(
        key
        for key, value in stored.items()
        if value != seen.get(key) and whole.get(key) == value and given.get(key) != value
    )


def moved(before: Values, after: Values) -> list[str]:
    """Return the changed keys that say where, as what, or by which code something is reached: a secret may go with them."""
    changed = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    return sorted(
        key
        for key in changed
        if (_REACHES.search(key) and not _TUNING.search(key))
        or any(_ADDRESS.search(each.get(key) or "") for each in (before, after))
    )
