# SPDX-License-Identifier: Apache-2.0

"""News from the leading conductor: which sessions have changed."""

from __future__ import annotations

import threading
from typing import Any

import oslo_messaging as messaging
from oslo_config import cfg
from oslo_log import log as logging

from fpgapool import objects
from fpgapool.api.backends import waiters
from fpgapool.common.messaging import rpc
from fpgapool.common.messaging import signing
from fpgapool.common.monitoring import ratelimit
from fpgapool.rpcapi import api as api_rpcapi
from fpgapool.vocabulary import shapes

LOG = logging.getLogger(__name__)
_OFTEN = ratelimit.RateLimitedLog(__name__)

_VIEWS = shapes.list_of(shapes.anything, most=api_rpcapi.MAX_CHANGES)


class Endpoint(rpc.Endpoint):
    """See :class:`fpgapool.rpcapi.api.ApiAPI` for the calls."""

    CASTS = frozenset({"sessions_changed"})
    # Only conductors send news.
    OF_HOSTS = frozenset()

    target = messaging.Target(version=api_rpcapi.VERSION)

    def __init__(self, changed: waiters.Changed) -> None:
        self._changed = changed

    def sessions_changed(self, _ctxt: Any, views: Any) -> None:
        read = objects.SessionView.from_primitive
        try:
            changed = list(map(read, _VIEWS(views, "views")))
        except ValueError as error:
            _OFTEN.warning("Malformed sessions_changed dropped: %s", error)
        else:
            self._changed(changed)


class Listener:
    """Listens for news from the first request that waits.

    A web server may fork after creating this. Listening begins once the broker
    has been reached, in a thread, because requests must not wait for it.
    """

    def __init__(
        self, conf: cfg.ConfigOpts, keys: signing.Keys | None
    ) -> None:
        self._accept_unsigned: bool = conf.messages.accept_unsigned
        self._keys = keys
        self._lock = threading.Lock()
        self._server: messaging.MessageHandlingServer | None = None
        self._ready = threading.Event()

    def start(self, changed: waiters.Changed) -> None:
        """Start listening; later calls do nothing."""
        if self._server is not None:
            return
        with self._lock:
            if self._server is not None:
                return
            self._server = rpc.get_server(
                api_rpcapi.TOPIC,
                api_rpcapi.SERVER,
                [Endpoint(changed)],
                keys=self._keys,
                accept_unsigned=self._accept_unsigned,
            )
            threading.Thread(
                target=self._run, name="news", daemon=True
            ).start()

    def stop(self) -> None:
        """Stop listening, if the broker has ever been reached."""
        if self._server is not None and self._ready.is_set():
            self._server.stop()
            self._server.wait()

    def _run(self) -> None:
        assert self._server is not None
        try:
            self._server.start()
        except messaging.MessagingException as error:
            LOG.error(
                "This process hears no news of sessions until a later request"
                " waits, and requests learn of changes later: %s",
                error,
            )
            self._server = None
        else:
            self._ready.set()
