# SPDX-License-Identifier: Apache-2.0

"""Wait for a session's slot."""

from __future__ import annotations

import time
from collections.abc import Callable

from osc_lib import exceptions

from fpgapool.osc.sdk import proxy
from fpgapool.osc.sdk import session as sessions
from fpgapool.vocabulary import session as description
from fpgapool.vocabulary import states

# Short enough that users see the queue move.
_POLL_S = 10.0
# If a response arrives sooner than this, the service did not wait.
_SHORTEST_S = 0.1
_PAUSE_S = 1


def until_ready(
    client: proxy.Proxy,
    session: sessions.Session,
    say: Callable[[str], object],
) -> sessions.Session:
    """Wait until a session has its slot.

    :raises CommandError: if the session has ended.
    """
    shown = ""
    while session.state in (states.QUEUED, states.PREPARING):
        if (text := progress(session)) != shown:
            say(text)
            shown = text
        session = _next(client, session)
    if session.state in states.TERMINAL:
        raise exceptions.CommandError(
            f"session {session.id} is {session.state}:"
            f" {session.message or 'no details'} ({session.reason})"
        )
    say(progress(session))
    return session


def progress(session: sessions.Session) -> str:
    """Return the progress of a session as one line."""
    text = f"session {session.id}: {session.state}"
    if session.queue_position is not None:
        text += f", {session.queue_position} before it"
    if wait := description.wait_text(session):
        text += f", {wait}"
    reasons = [one["message"] for one in session.pending_reasons or ()]
    return " ".join([f"{text}.", *reasons]) if reasons else text


def _next(client: proxy.Proxy, session: sessions.Session) -> sessions.Session:
    """Return the session once it has changed, or after a time limit."""
    started_s = time.monotonic()
    found = client.get_session(
        session.id, wait_s=_POLL_S, revision=session.revision
    )
    took_s = time.monotonic() - started_s
    if found.revision == session.revision and took_s < _SHORTEST_S:
        # The service did not wait, because too many requests are waiting.
        time.sleep(found.retry_after_s or _PAUSE_S)
    return found
