"""UpdateFeatures (KIP-584): new levels for features. Version 1 tells kinds of downgrade apart, 2 answers for all at once."""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError
from ottla.broker.parts import ControllerParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.metadata import Image, decide
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

__all__ = ["HANDLER"]

KRAFT_VERSION = "kraft.version"
ALL_FAILED = "The update failed for all features since the following feature had an error: "
RESULTS_UP_TO = 1
"""The last version whose answer names every feature."""


async def update_features(
    context: RequestContext[ControllerParts], request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    """Change all levels or none, and answer once that is committed."""
    quorum = context.services.quorum
    settings = context.services.configuration.broker.settings
    updates = [_update(each, context.api_version) for each in request.feature_updates]

    def decision(image: Image) -> decide.Decision[None]:
        decided = decide.update_features(
            image,
            updates,
            node_id=context.services.node_id,
            voters=quorum.status.voters.ids,
            kraft_version=quorum.kraft_version,
            min_insync_replicas=settings.min_insync_replicas,
        )
        return decide.Decision((), None) if request.validate_only else decided

    try:
        await quorum.submit(decision, timeout_ms=request.timeout_ms)
        kraft = next((each.level for each in updates if each.name == KRAFT_VERSION), quorum.kraft_version)
        if kraft != quorum.kraft_version and not request.validate_only:
            await quorum.membership.record(kraft)
    except KafkaError as error:
        if error.code is not ErrorCode.INVALID_UPDATE_VERSION:
            raise
        raise KafkaError(error.code, ALL_FAILED + error.message) from error
    results = [UpdatableFeatureResult(feature=each.feature, error_code=0) for each in request.feature_updates]
    return UpdateFeaturesResponse(results=results if context.api_version <= RESULTS_UP_TO else [])


def _update(asked: FeatureUpdateKey, version: int) -> decide.FeatureUpdate:
    upgrade_type = asked.upgrade_type
    if version == 0 and asked.allow_downgrade:
        upgrade_type = int(decide.UpgradeType.SAFE_DOWNGRADE)
    return decide.FeatureUpdate(asked.feature, asked.max_version_level, upgrade_type)


HANDLER = Handler(
    UpdateFeaturesRequest,
    versions=(0, 2),
    needs=Needs(Operation.ALTER, Resource.CLUSTER),
    handle=update_features,
    forwards=True,
)
