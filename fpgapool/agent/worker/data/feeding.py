# SPDX-License-Identifier: Apache-2.0

"""Receives a session's input over the link from the previous stage's worker.

The client's connection announces pieces; the link brings their bytes, in the
same order. The link's own thread receives them, so that the client is heard
while a link is lost.
"""

from __future__ import annotations

from fpgapool.agent.child import port as ports
from fpgapool.agent.worker.data import receiving
from fpgapool.agent.worker.data import session as sessions
from fpgapool.common.channels import channel as channels
from fpgapool.common.monitoring import ratelimit
from fpgapool.protocol import links
from fpgapool.vocabulary import codes

LOG = ratelimit.RateLimitedLog(__name__)

# Time limit for the answer to the previous stage's worker.
_ANSWER_S = 10.0


def serve(session: sessions.DataSession, channel: channels.Channel) -> None:
    """Receive from the previous stage until the link ends, then close it.

    :raises ports.Refused: if the session cannot receive; the channel stays
        open.
    """
    offset_bytes = _admit(session, channel)
    try:
        channel.send(
            links.opened(offset_bytes),
            deadline_s=channels.deadline_after(_ANSWER_S),
        )
        while _receive_one(session, channel):
            pass
    except (channels.ChannelClosed, channels.DeadlineExceeded) as exc:
        LOG.info("the link from the previous stage was lost: %s", exc)
    with session.lock:
        if session.links.incoming.channel is channel:
            session.links.incoming.channel = None
    channel.close()


def _admit(session: sessions.DataSession, channel: channels.Channel) -> int:
    """Use a link instead of an earlier one; return where it must start."""
    incoming = session.links.incoming
    with session.lock:

        def is_free() -> bool:
            # While this one waits, another one may have begun.
            incoming.hang_up()
            return session.stopping or not session.filling

        session.wait_for_run(is_free)
        # The earlier one's thread may wait for a piece.
        session.condition.notify_all()
        if session.stopping or session.ended or session.channel is None:
            raise ports.Refused(
                codes.SESSION_NOT_READY, "the session has no connection"
            )
        incoming.channel = channel
        if incoming.announced:
            return incoming.announced[0][0].offset_bytes
        return session.input.received_bytes


def _receive_one(
    session: sessions.DataSession, channel: channels.Channel
) -> bool:
    """Receive the next announced piece; return False if the link is over."""
    incoming = session.links.incoming
    with session.lock:
        session.condition.wait_for(
            lambda: incoming.channel is not channel or incoming.announced
        )
        if incoming.channel is not channel:
            return False
        header, view = incoming.announced[0]
        session.filling = True
    complete = inline = False
    try:
        if view:
            channel.recv_exact_into(view)
        complete = True
    finally:
        with session.lock:
            session.filling = False
            if session.run_waiters:
                session.condition.notify_all()
            if complete and incoming.channel is channel:
                incoming.announced.popleft()
                inline = receiving.add_task(session, header, view)
    if inline:
        session.run()
    return True
