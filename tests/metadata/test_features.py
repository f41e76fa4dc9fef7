"""Levels of features: what may be changed, in Kafka's words where it may not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.base import ErrorCode, KafkaError
from ottla.metadata import Image, ResourceType, decide
from ottla.wire.messages.config_record import ConfigRecord
from tests.metadata.clusters import after, cluster

UP, SAFE, UNSAFE = decide.UpgradeType.UPGRADE, decide.UpgradeType.SAFE_DOWNGRADE, decide.UpgradeType.UNSAFE_DOWNGRADE


def update(image: Image, *updates: tuple[str, int, int], voters: tuple[int, ...] = (1,)) -> decide.Decision[None]:
    return decide.update_features(
        image,
        [decide.FeatureUpdate(*each) for each in updates],
        node_id=1,
        voters=voters,
        kraft_version=0,
        min_insync_replicas=1,
    )


def test_levels_go_down_and_up_again() -> None:
    image = after(cluster(1), update(cluster(1), ("transaction.version", 0, SAFE), ("group.version", 0, UNSAFE)))
    assert "transaction.version" not in image.features and "group.version" not in image.features
    assert after(image, update(image, ("transaction.version", 2, UP))).features["transaction.version"] == 2


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (("transaction.version", 1, 0), "The controller does not support the given upgrade type."),
        (("transaction.version", -1, SAFE), "A feature version cannot be less than 0."),
        (("transaction.version", 3, UP), "Local controller 1 only supports versions 0-2"),
        (("no.such.feature", 1, UP), "Local controller 1 does not support this feature."),
        (
            ("transaction.version", 1, UP),
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade.",
        ),
        (("transaction.version", 2, SAFE), None),
        (("kraft.version", 1, SAFE), "Can't downgrade to a newer version."),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(asked: tuple[str, int, int], text: str | None) -> None:
    if text is None:
        assert update(cluster(1), asked).records
        return
    with pytest.raises(KafkaError) as caught:
        update(cluster(1), asked)
    assert caught.value.code == ErrorCode.INVALID_UPDATE_VERSION
    assert caught.value.message == f"Invalid update version {asked[1]} for feature {asked[0]}. {text}"


def test_a_level_needs_everybody_to_understand_it() -> None:
    image = cluster(1, 2)
    old = replace(image.brokers[2], features=image.brokers[2].features.set("transaction.version", (0, 1)))
    image = replace(image, brokers=image.brokers.set(2, old))
    with pytest.raises(KafkaError, match="Broker 2 only supports versions 0-1"):
        update(image, ("transaction.version", 2, UP))
    with pytest.raises(KafkaError, match="controller 3 has not registered, and may not support this feature"):
        update(cluster(1), ("transaction.version", 2, UP), voters=(1, 3))


def test_metadata_goes_back_only_where_nothing_would_be_lost() -> None:
    image = cluster(1)
    with pytest.raises(KafkaError) as caught:
        update(image, ("metadata.version", 29, SAFE))
    assert caught.value.message == (
        "Unsupported metadata.version downgrade from 30 to 29. Refusing to perform the requested downgrade "
        "because it might delete metadata information."
    )
    with pytest.raises(KafkaError, match="Unsafe metadata downgrade is not supported in this version"):
        update(image, ("metadata.version", 29, UNSAFE))
    image = replace(image, features=image.features.set("metadata.version", 29))
    assert after(image, update(image, ("metadata.version", 24, SAFE))).metadata_version == 24


def test_one_failure_fails_all() -> None:
    with pytest.raises(KafkaError):
        update(cluster(1), ("transaction.version", 0, SAFE), ("group.version", 7, UP))


def test_eligible_leader_replicas_need_one_min_insync_replicas() -> None:
    image = cluster(1)
    image = after(image, update(image, ("eligible.leader.replicas.version", 0, SAFE)))
    broker = decide.Decision(
        (
            ConfigRecord(resource_type=ResourceType.BROKER, resource_name="1", name="min.insync.replicas", value="2"),
            ConfigRecord(resource_type=ResourceType.BROKER, resource_name="", name="min.insync.replicas", value=None),
        ),
        None,
    )
    image = after(image, broker)
    image = after(image, update(image, ("eligible.leader.replicas.version", 1, UP)))
    assert image.default_broker_config()["min.insync.replicas"] == "1" and not image.broker_config(1)
    old = replace(image, features=image.features.set("metadata.version", 22))
    with pytest.raises(KafkaError, match=r"because it depends on metadata\.version level 23"):
        update(old, ("eligible.leader.replicas.version", 1, UP))
