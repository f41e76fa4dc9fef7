"""S3's keys that sink and source share, and the client that is made of them: credentials, endpoint, retries."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from ottla.base import ConfigError
from ottla.config import ConfigType
from ottla.connect import REQUIRED, ConfigDef, ConnectError, Importance, RetriableError, validators
from ottla.connectors.storage import Key, define, needs_extra

__all__ = ["client_keys", "expecting", "failure", "made_client", "require_boto", "upload_arguments"]

log = logging.getLogger(__name__)

REGION = "us-west-2"
CONNECTIONS_MAX = 16
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
DEFAULT_PROVIDER = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
_CHAIN = frozenset(
    (
        *("DefaultCredentialsProvider", "DefaultAWSCredentialsProviderChain", "AWSCredentialsProviderChain"),
        *("EnvironmentVariableCredentialsProvider", "ProfileCredentialsProvider", "ContainerCredentialsProvider"),
        *("InstanceProfileCredentialsProvider", "EC2ContainerCredentialsProviderWrapper"),
        *("WebIdentityTokenFileCredentialsProvider", "WebIdentityTokenCredentialsProvider"),
    )
)
"""Providers that are links of boto3's own chain, which is asked for all of them."""

_ANONYMOUS = "AnonymousCredentialsProvider"
_ASSUME_ROLE = "AwsAssumeRoleCredentialsProvider"
_RETRIABLE_CODES = frozenset(("SlowDown", "RequestTimeout", "Throttling", "ThrottlingException", "OperationAborted"))
_RETRIABLE_STATUSES = frozenset((408, 429, 500, 502, 503, 504))


def _provider_rule(name: str, value: Any) -> None:
    simple = str(value or "").rpartition(".")[2]
    if simple not in _CHAIN | {_ANONYMOUS, _ASSUME_ROLE}:
        known = ", ".join((DEFAULT_PROVIDER, _ASSUME_ROLE, _ANONYMOUS))
        raise ConfigError(name, value, f"expected one of {known}, or a provider of AWS that the default chain has")


_KEYS = (
    Key("s3.bucket.name", ConfigType.STRING, REQUIRED, HIGH, "The bucket.", validators.NonEmptyString()),
    Key("s3.region", ConfigType.STRING, REGION, MEDIUM, "The bucket's region.", validators.NonEmptyString()),
    Key(
        "store.url",
        ConfigType.STRING,
        None,
        HIGH,
        "Where the store is that speaks S3's protocol, such as http://minio:9000; Amazon's if not set.",
    ),
    Key(
        "aws.access.key.id", ConfigType.STRING, "", MEDIUM, "The id of an access key; without it the provider is asked."
    ),
    Key("aws.secret.access.key", ConfigType.PASSWORD, "", MEDIUM, "The secret of the access key."),
    Key(
        "s3.credentials.provider.class",
        ConfigType.CLASS,
        DEFAULT_PROVIDER,
        LOW,
        "Who gives credentials: the default chain (environment, ~/.aws, the machine's role), a role that is assumed, or "
        "nobody for public buckets.",
        validators.Lambda(_provider_rule, "a provider's class"),
    ),
    Key("s3.credentials.provider.sts.role.arn", ConfigType.STRING, "", LOW, "The role to assume."),
    Key("s3.credentials.provider.sts.role.external.id", ConfigType.STRING, "", LOW, "The external id of that."),
    Key(
        "s3.credentials.provider.sts.role.session.name", ConfigType.STRING, "ottla-connect", LOW, "The session's name."
    ),
    Key(
        "s3.path.style.access.enabled",
        ConfigType.BOOLEAN,
        True,
        LOW,
        "Whether the bucket stands in the path of addresses; else in the host's name.",
    ),
    Key("s3.wan.mode", ConfigType.BOOLEAN, False, MEDIUM, "Whether to use S3's accelerated endpoint."),
    Key(
        "s3.part.retries",
        ConfigType.INT,
        3,
        MEDIUM,
        "How often a request is tried again at once, with growing pauses, before the records are.",
        validators.Range(0, 1000),
    ),
    Key("s3.proxy.url", ConfigType.STRING, "", LOW, "The proxy to go through, with its scheme."),
    Key("s3.proxy.user", ConfigType.STRING, None, LOW, "The proxy's user."),
    Key("s3.proxy.password", ConfigType.PASSWORD, "", LOW, "The password of the proxy's user."),
)


def client_keys(definition: ConfigDef) -> ConfigDef:
    """Add the keys to a definition and return it."""
    define(definition, "S3", _KEYS)
    return definition


def require_boto() -> None:
    """Raise ConnectError where boto3 is not installed."""
    try:
        import boto3  # noqa: F401
    except ImportError as error:
        raise needs_extra("boto3", "The S3 connector") from error


def made_client(settings: Mapping[str, Any], *, service: str = "s3") -> Any:
    """Return a client of parsed settings, which many threads may use; raises ConnectError, ConfigError."""
    require_boto()
    import boto3
    import botocore
    from botocore.config import Config

    simple = str(settings["s3.credentials.provider.class"]).rpartition(".")[2]
    key_id, secret = settings["aws.access.key.id"], settings["aws.secret.access.key"].secret
    if bool(key_id) != bool(secret):
        missing = "aws.secret.access.key" if key_id else "aws.access.key.id"
        raise ConfigError(missing, "", "an access key has an id and a secret; set both or neither")
    style = "path" if settings["s3.path.style.access.enabled"] and not settings["s3.wan.mode"] else "virtual"
    options: dict[str, Any] = {
        "retries": {"total_max_attempts": settings["s3.part.retries"] + 1, "mode": "standard"},
        "s3": {"addressing_style": style, "use_accelerate_endpoint": settings["s3.wan.mode"]},
        "max_pool_connections": CONNECTIONS_MAX,
        "proxies": _proxies(settings),
    }
    if settings["store.url"]:  # stores that only speak the protocol seldom know the newer checksums
        options |= {"request_checksum_calculation": "when_required", "response_checksum_validation": "when_required"}
    if simple == _ANONYMOUS and not key_id:
        options["signature_version"] = botocore.UNSIGNED
    session = boto3.session.Session(
        aws_access_key_id=key_id or None, aws_secret_access_key=secret or None, region_name=settings["s3.region"]
    )
    if simple == _ASSUME_ROLE:
        session = _with_role(session, settings)
    endpoint = settings["store.url"] if service == "s3" else None
    try:
        return session.client(service, endpoint_url=endpoint or None, config=Config(**options))
    except ValueError as error:
        raise ConfigError("store.url", endpoint, f"{error}") from error


def _proxies(settings: Mapping[str, Any]) -> dict[str, str] | None:
    url: str = settings["s3.proxy.url"]
    if not url:
        return None
    scheme, found, host = url.rpartition("://")
    user, password = settings["s3.proxy.user"], settings["s3.proxy.password"].secret
    if user:
        host = f"{user}:{password}@{host}" if password else f"{user}@{host}"
    full = f"{scheme if found else 'http'}://{host}"
    return {"http": full, "https": full}


def _with_role(session: Any, settings: Mapping[str, Any]) -> Any:
    """Return a session whose credentials are those of a role, fetched again before they expire."""
    import boto3
    from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials
    from botocore.session import Session

    prefix = "s3.credentials.provider.sts.role."
    arn = settings[prefix + "arn"]
    if not arn:
        raise ConfigError(prefix + "arn", "", f"{_ASSUME_ROLE} needs the role to assume")
    more = {"RoleSessionName": settings[prefix + "session.name"]}
    if settings[prefix + "external.id"]:
        more["ExternalId"] = settings[prefix + "external.id"]
    fetcher = AssumeRoleCredentialFetcher(
        lambda name, **kind: session.client(name), session.get_credentials(), arn, extra_args=more
    )
    own = Session()
    own._credentials = DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")
    return boto3.session.Session(botocore_session=own, region_name=settings["s3.region"])


def upload_arguments(settings: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Return what a new object is asked for (encryption, access), and what each of its parts is."""
    whole: dict[str, str] = {}
    parts: dict[str, str] = {}
    if settings["s3.acl.canned"]:
        whole["ACL"] = settings["s3.acl.canned"]
    if settings["s3.ssea.name"]:
        whole["ServerSideEncryption"] = settings["s3.ssea.name"]
    if settings["s3.sse.kms.key.id"]:
        whole["SSEKMSKeyId"] = settings["s3.sse.kms.key.id"]
    customer = settings["s3.sse.customer.key"].secret
    if customer:
        parts = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": customer}
    return whole | parts, parts


def failure(error: Exception, what: str) -> ConnectError:
    """Return what an error of boto3 means here: RetriableError where the same may go well later."""
    from botocore import exceptions

    text = f"{what}: {error}"
    if isinstance(error, exceptions.ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        again = status in _RETRIABLE_STATUSES or error.response.get("Error", {}).get("Code") in _RETRIABLE_CODES
        return RetriableError(text) if again else ConnectError(text)
    retriable = (exceptions.HTTPClientError, exceptions.ConnectionError, exceptions.IncompleteReadError, OSError)
    return RetriableError(text) if isinstance(error, retriable) else ConnectError(text)


def expecting(what: Callable[[], str], call: Callable[[], Any]) -> Any:
    """Return what a call of boto3 returns; raises ConnectError or RetriableError for what it raises."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return call()
    except (BotoCoreError, ClientError, OSError) as error:
        raise failure(error, what()) from error
