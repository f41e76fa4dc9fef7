from __future__ import annotations

import pytest

from ottla.base import ErrorCode
from ottla.metadata import Image, ResourceType, decide
from ottla.metadata.decide import ConfigOperation
from ottla.wire.messages import alter_configs as legacy
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.metadata.clusters import CONFIG, after, cluster, topic, with_topics

Operation = tuple[str, ConfigOperation, str | None]


def alter(image: Image, kind: int, name: str, *operations: Operation, validate_only: bool = False):
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in operations],
            )
        ],
        validate_only=validate_only,
    )
    return decide.alter_configs(image, request, config=CONFIG)


def error(decision) -> tuple[int, str]:
    (result,) = decision.response
    assert result.error is not None
    return result.error.code, result.error.message


SET, DELETE, APPEND, SUBTRACT = ConfigOperation


@pytest.fixture
def image() -> Image:
    return with_topics(cluster(1), topic("a", configs={"cleanup.policy": "compact", "retention.ms": "5"}))


def test_set_delete_append_and_subtract_change_one_key_each(image: Image) -> None:
    operations = [
        ("segment.ms", SET, "9"),
        ("retention.ms", DELETE, None),
        ("cleanup.policy", APPEND, "delete,compact"),
    ]
    image = after(image, alter(image, ResourceType.TOPIC, "a", *operations))
    assert dict(image.topic_config("a")) == {"segment.ms": "9", "cleanup.policy": "compact,delete"}
    image = after(image, alter(image, ResourceType.TOPIC, "a", ("cleanup.policy", SUBTRACT, "compact")))
    assert image.topic_config("a")["cleanup.policy"] == "delete"


def test_append_to_what_is_not_set_adds_to_the_default(image: Image) -> None:
    image = after(image, alter(image, ResourceType.TOPIC, "a", ("cleanup.policy", DELETE, None)))
    image = after(image, alter(image, ResourceType.TOPIC, "a", ("cleanup.policy", APPEND, "compact")))
    assert image.topic_config("a")["cleanup.policy"] == "delete,compact"


def test_what_changes_nothing_writes_nothing(image: Image) -> None:
    assert alter(image, ResourceType.TOPIC, "a", ("retention.ms", SET, "5")).records == ()


def test_validate_only_writes_nothing(image: Image) -> None:
    decision = alter(image, ResourceType.TOPIC, "a", ("retention.ms", SET, "6"), validate_only=True)
    assert decision.records == () and decision.response[0].error is None


@pytest.mark.parametrize(
    ("operation", "code", "message"),
    [
        (("nonsense", SET, "1"), ErrorCode.INVALID_CONFIG, "Unknown topic config name: nonsense"),
        (
            ("retention.ms", APPEND, "1"),
            ErrorCode.INVALID_CONFIG,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (("retention.ms", SET, None), ErrorCode.INVALID_REQUEST, "Null value not supported for : retention.ms"),
    ],
)
def test_operations_that_are_not_allowed(image: Image, operation: Operation, code: ErrorCode, message: str) -> None:
    assert error(alter(image, ResourceType.TOPIC, "a", operation)) == (code, message)


def test_one_wrong_key_keeps_the_whole_resource_as_it_is(image: Image) -> None:
    decision = alter(image, ResourceType.TOPIC, "a", ("retention.ms", SET, "7"), ("segment.ms", SET, "x"))
    assert error(decision)[0] == ErrorCode.INVALID_CONFIG and decision.records == ()


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (ResourceType.TOPIC, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ResourceType.TOPIC, "", ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER, "9", ErrorCode.BROKER_ID_NOT_REGISTERED),
        (ResourceType.BROKER, "x", ErrorCode.INVALID_REQUEST),
        (ResourceType.GROUP, "", ErrorCode.INVALID_REQUEST),
        (77, "a", ErrorCode.INVALID_REQUEST),
    ],
)
def test_resources_that_cannot_be_configured(image: Image, kind: int, name: str, code: ErrorCode) -> None:
    assert error(alter(image, kind, name, ("retention.ms", SET, "1")))[0] == code


def test_a_broker_takes_what_may_change_live_and_refuses_the_rest(image: Image) -> None:
    changed = after(image, alter(image, ResourceType.BROKER, "1", ("log.cleaner.threads", SET, "2")))
    assert dict(changed.broker_config(1)) == {"log.cleaner.threads": "2"}
    assert error(alter(image, ResourceType.BROKER, "1", ("node.id", SET, "2")))[0] == ErrorCode.INVALID_REQUEST


def test_min_insync_replicas_stays_one_for_all_brokers_while_elr_is_on(image: Image) -> None:
    code, message = error(alter(image, ResourceType.BROKER, "1", ("min.insync.replicas", SET, "2")))
    assert (code, message) == (
        ErrorCode.INVALID_CONFIG,
        "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
    )
    assert (
        error(alter(image, ResourceType.BROKER, "", ("min.insync.replicas", DELETE, None)))[0]
        == ErrorCode.INVALID_CONFIG
    )
    changed = after(image, alter(image, ResourceType.BROKER, "", ("min.insync.replicas", SET, "2")))
    assert changed.default_broker_config()["min.insync.replicas"] == "2"


def test_groups_and_client_metrics_have_their_own_keys(image: Image) -> None:
    image = after(image, alter(image, ResourceType.GROUP, "g", ("consumer.session.timeout.ms", SET, "45000")))
    assert dict(image.config(ResourceType.GROUP, "g")) == {"consumer.session.timeout.ms": "45000"}
    image = after(image, alter(image, ResourceType.CLIENT_METRICS, "m", ("match", SET, "client_id=app-.*")))
    assert dict(image.config(ResourceType.CLIENT_METRICS, "m")) == {"match": "client_id=app-.*"}
    assert (
        error(alter(image, ResourceType.CLIENT_METRICS, "m", ("match", SET, "nobody=1")))[0] == ErrorCode.INVALID_CONFIG
    )
    assert error(alter(image, ResourceType.GROUP, "g", ("retention.ms", SET, "1")))[0] == ErrorCode.INVALID_CONFIG


def test_the_legacy_request_replaces_everything(image: Image) -> None:
    request = legacy.AlterConfigsRequest(
        resources=[
            legacy.AlterConfigsResource(
                resource_type=ResourceType.TOPIC,
                resource_name="a",
                configs=[legacy.AlterableConfig(name="segment.ms", value="9")],
            )
        ]
    )
    image = after(image, decide.replace_configs(image, request, config=CONFIG))
    assert dict(image.topic_config("a")) == {"segment.ms": "9"}
