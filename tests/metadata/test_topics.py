from __future__ import annotations

import pytest

from ottla.base import ZERO_UUID, ErrorCode, KafkaError
from ottla.metadata import EMPTY_IMAGE, decide
from tests.metadata.clusters import CONFIG, after, cluster, create, topic, with_topics


def failure(decision, name: str) -> tuple[int, str]:
    result = next(each for each in decision.response.topics if each.name == name)
    return result.error_code, result.error_message


def test_a_created_topic_has_its_partitions_configs_and_id() -> None:
    image = cluster(1)
    decision = create(image, topic("a", 3, configs={"retention.ms": "1000"}))
    (result,) = decision.response.topics
    image = after(image, decision)
    created = image.topic("a")
    assert created is not None and created.id == result.topic_id != ZERO_UUID
    assert sorted(created.partitions) == [0, 1, 2]
    assert {each.leader for each in created.partitions.values()} == {1}
    assert dict(image.topic_config("a")) == {"retention.ms": "1000"}
    assert (result.num_partitions, result.replication_factor) == (3, 1)
    assert {each.name: each.value for each in result.configs}["retention.ms"] == "1000"


def test_a_new_replica_is_in_its_brokers_only_directory() -> None:
    image = with_topics(cluster(1), topic("a"))
    partition = image.partition("a", 0)
    assert partition is not None and partition.directories == image.brokers[1].log_dirs


def test_validate_only_answers_alike_and_writes_nothing() -> None:
    decision = create(cluster(1), topic("a", 2), validate_only=True)
    assert decision.records == ()
    assert decision.response.topics[0].num_partitions == 2


def test_defaults_come_from_the_broker() -> None:
    (result,) = create(cluster(1), topic("a", -1, -1)).response.topics
    assert (result.num_partitions, result.replication_factor) == (
        CONFIG.settings.num_partitions,
        CONFIG.settings.default_replication_factor,
    )


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("a b", "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("ä", "'ä' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
    ],
)
def test_names_that_no_topic_may_have(name: str, problem: str) -> None:
    assert failure(create(cluster(1), topic(name)), name) == (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"Topic name is invalid: {problem}",
    )


def test_a_topic_that_exists_is_refused() -> None:
    image = with_topics(cluster(1), topic("a"))
    assert failure(create(image, topic("a")), "a") == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'a' already exists.")


def test_names_that_differ_in_dots_and_underscores_collide() -> None:
    image = with_topics(cluster(1), topic("a.b"))
    expected = (ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic 'a_b' collides with existing topic: a.b")
    assert failure(create(image, topic("a_b")), "a_b") == expected
    decision = create(cluster(1), topic("a.b"), topic("a_b"))
    assert [each.error_code for each in decision.response.topics] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_a_name_given_twice_is_refused_once_and_others_are_made() -> None:
    decision = create(cluster(1), topic("a"), topic("b"), topic("a"))
    assert [(each.name, each.error_code) for each in decision.response.topics] == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("b", 0),
    ]


def test_the_metadata_log_is_no_topic() -> None:
    assert (
        failure(create(cluster(1), topic("__cluster_metadata")), "__cluster_metadata")[0] == ErrorCode.INVALID_REQUEST
    )


@pytest.mark.parametrize(
    ("partitions", "replicas", "code"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-2, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, -2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 2, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_counts_that_cannot_be(partitions: int, replicas: int, code: ErrorCode) -> None:
    assert failure(create(cluster(1), topic("a", partitions, replicas)), "a")[0] == code


def test_too_few_brokers_is_said_in_kafkas_words() -> None:
    assert failure(create(cluster(1), topic("a", 1, 3)), "a")[1] == (
        "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because only "
        "1 broker(s) are registered or some brokers have all their log directories cordoned."
    )


def test_one_request_has_a_bound_on_partitions() -> None:
    with pytest.raises(KafkaError) as caught:
        create(cluster(1), topic("a", 6000), topic("b", 5000))
    assert caught.value.code == ErrorCode.POLICY_VIOLATION


def test_manual_assignments_are_kept_as_given() -> None:
    image = with_topics(cluster(1, 2, 3), topic("a", assignments={0: [2, 1], 1: [3, 2]}))
    created = image.topic("a")
    assert created is not None
    assert [each.replicas for _, each in created.in_order()] == [(2, 1), (3, 2)]
    assert [each.leader for _, each in created.in_order()] == [2, 3]


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        ({0: []}, "The manual partition assignment includes an empty replica list."),
        ({0: [9]}, "The manual partition assignment includes broker 9, but no such broker is registered."),
        ({0: [1, 1]}, "The manual partition assignment includes the broker 1 more than once."),
        ({0: [1], 2: [1]}, "partitions should be a consecutive 0-based integer sequence"),
        (
            {0: [1, 2], 1: [1]},
            "The manual partition assignment includes a partition with 1 replica(s), but this is not consistent with "
            "previous partitions, which have 2 replica(s).",
        ),
    ],
)
def test_manual_assignments_that_cannot_be(assignments: dict[int, list[int]], message: str) -> None:
    decision = create(cluster(1, 2), topic("a", assignments=assignments))
    assert failure(decision, "a") == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


@pytest.mark.parametrize("configs", [{"nonsense": "1"}, {"retention.ms": "x"}, {"retention.ms": None}])
def test_configs_that_are_not_allowed(configs: dict[str, str | None]) -> None:
    decision = create(cluster(1), topic("a", configs=configs))
    assert failure(decision, "a")[0] == ErrorCode.INVALID_CONFIG
    assert decision.records == ()


def test_a_deleted_topic_takes_its_configs_along() -> None:
    image = with_topics(cluster(1), topic("a", configs={"retention.ms": "5"}), topic("b"))
    decision = decide.delete_topics(image, [("a", ZERO_UUID), (None, image.topics["b"].id), ("c", ZERO_UUID)])
    assert decision.response == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    image = after(image, decision)
    assert not image.topics and not image.topic_names and not image.topic_config("a")


def test_deleting_an_unknown_id_says_so() -> None:
    assert decide.delete_topics(EMPTY_IMAGE, [(None, ZERO_UUID)]).response == [ErrorCode.UNKNOWN_TOPIC_ID]
