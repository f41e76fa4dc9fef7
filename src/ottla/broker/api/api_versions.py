"""ApiVersions (KIP-35, KIP-511, KIP-584): what is served, computed from the handlers; nothing else is advertised.

One range is wider than what is served: Produce begins at 0, as in Kafka (its handler says why).

A version that is not known is answered in version 0 with UNSUPPORTED_VERSION, by the router, which finds it here.
Version 4 differs from 3 only in allowing a feature's minimum version 0 (KIP-1022); 3 leaves such features out.
"""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError
from ottla.broker.parts import ServedParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.metadata import SUPPORTED_FEATURES
from ottla.security import NEEDS_NOTHING
from ottla.wire import APIS, ApiKey, decode, read_request_header
from ottla.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

__all__ = ["HANDLER", "is_answered"]


def api_versions(context: RequestContext[ServedParts], request: ApiVersionsRequest) -> ApiVersionsResponse:
    """List the APIs of this listener and the cluster's features."""
    if context.api_version >= 3 and not _is_named(request):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    image = context.services.image
    finalized = image.features.set("kraft.version", context.services.quorum.kraft_version)
    side = "controller" if context.connected.is_controller else "broker"
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=each.api_key, min_version=each.advertised_from, max_version=each.versions[1])
            for each in sorted(context.services.handlers, key=lambda each: each.api_key)
            if side in APIS[each.api_key].listeners
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
            for name, (lowest, highest) in sorted(SUPPORTED_FEATURES.items())
            if lowest > 0 or context.api_version >= 4
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(finalized.items())
            if level > 0
        ],
    )


def is_answered(frame: memoryview) -> bool:
    """Return whether a request is answered without an error; raises WireError where it is none."""
    lowest, highest = HANDLER.versions
    if not lowest <= int.from_bytes(frame[2:4], "big", signed=True) <= highest:
        return False
    header, position = read_request_header(frame)
    request, _ = decode(ApiVersionsRequest, frame, header.api_version, position)
    return header.api_version < 3 or _is_named(request)


def _is_named(request: ApiVersionsRequest) -> bool:
    """Return whether a client names its software as KIP-511 asks: letters, digits, dots and dashes."""
    return _is_plain(request.client_software_name) and _is_plain(request.client_software_version)


def _is_plain(text: str) -> bool:
    return bool(text) and text[0].isalnum() and text[-1].isalnum() and text.replace(".", "").replace("-", "").isalnum()


def refuse(request: ApiVersionsRequest | None, error: KafkaError) -> ApiVersionsResponse:
    """Answer with an error, and with this API's own range where that is what the client got wrong."""
    lowest, highest = HANDLER.versions
    own = ApiVersion(api_key=int(ApiKey.API_VERSIONS), min_version=lowest, max_version=highest)
    return ApiVersionsResponse(
        error_code=int(error.code), api_keys=[own] if error.code is ErrorCode.UNSUPPORTED_VERSION else []
    )


HANDLER = Handler(ApiVersionsRequest, versions=(0, 4), needs=NEEDS_NOTHING, handle=api_versions, error_response=refuse)
