"""BrokerHeartbeat (KIP-631): a broker lives, and is told whether it may serve, and whether it may go.

Version 1 adds log directories that have gone offline (KIP-858), 2 those that take nothing new (KIP-1066).
"""

from __future__ import annotations

from ottla.base import NodeId, Uuid
from ottla.broker.api.broker_registration import active_duties
from ottla.broker.parts import ControllerParts
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.metadata import Image, decide
from ottla.security import Needs, Operation, Resource
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

__all__ = ["HANDLER"]


async def broker_heartbeat(
    context: RequestContext[ControllerParts], request: BrokerHeartbeatRequest
) -> BrokerHeartbeatResponse:
    """Renew the broker's session at once, and answer once what follows from its wishes is committed."""
    duties = active_duties(context)
    quorum = context.services.quorum
    broker_id, epoch = NodeId(request.broker_id), request.broker_epoch
    offset = request.current_metadata_offset
    broker = quorum.image.brokers.get(broker_id)
    if broker is not None and broker.epoch == epoch:
        duties.heard(broker_id, epoch, context.connected, offset)
    others_follow = broker is not None and duties.others_follow(broker)

    def decision(image: Image) -> decide.Decision[decide.BrokerState]:
        known = image.brokers.get(broker_id)
        return decide.heartbeat(
            image,
            broker_id,
            epoch,
            caught_up=known is not None and offset >= known.epoch,
            want_fence=request.want_fence,
            want_shut_down=request.want_shut_down,
            offline_log_dirs=tuple(Uuid(bytes(each)) for each in request.offline_log_dirs),
            cordoned_log_dirs=None
            if request.cordoned_log_dirs is None
            else tuple(Uuid(bytes(each)) for each in request.cordoned_log_dirs),
            others_follow=others_follow,
            config=context.services.configuration.broker,
        )

    state = await quorum.submit(decision)
    if state.should_shut_down:
        duties.sessions.forget(broker_id)
    elif request.want_shut_down:
        duties.leaving(broker_id, epoch)
    return BrokerHeartbeatResponse(
        is_caught_up=offset >= epoch, is_fenced=state.fenced, should_shut_down=state.should_shut_down
    )


HANDLER = Handler(
    BrokerHeartbeatRequest,
    versions=(0, 2),
    needs=Needs(Operation.CLUSTER_ACTION, Resource.CLUSTER),
    handle=broker_heartbeat,
)
