# SPDX-License-Identifier: Apache-2.0

"""The REST API of an all-in-one pool, without Keystone."""

from __future__ import annotations

import threading
from collections.abc import Callable

from oslo_config import cfg
from oslo_log import log as logging

from fpgapool.allinone import webserver
from fpgapool.allinone import wiring
from fpgapool.api import app
from fpgapool.api import metrics as api_metrics
from fpgapool.api.ui import recall
from fpgapool.db import api as db_api
from fpgapool.rpcapi import pulse

LOG = logging.getLogger(__name__)

# Two thirds of them may wait for sessions.
_THREADS = 256
_STOP_S = 5


class RestAPI:
    """A service that runs the API's web server.

    RPC must have been set up.

    :param conf: the configuration; its ``[api] auth_strategy`` is changed.
    :param port: port to listen on; 0 means any free port.
    :param on_failure: called with a reason if the server's thread fails.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        database: db_api.Database,
        port: int,
        on_failure: Callable[[str], None],
    ) -> None:
        conf.set_override("auth_strategy", "noauth", group="api")
        self._backends = app.connect(conf, database, _THREADS)
        self._on_failure = on_failure
        self._metrics = api_metrics.endpoint(conf, self._backends.metrics)
        self._server = webserver.make(
            (wiring.API_ADDRESS, port),
            app.build(conf, self._backends),
            _THREADS,
            stop_s=_STOP_S,
        )
        self._server.error_log = _log
        self._pulse = pulse.Pulse(self._backends.conductor, app.PROGRAM)
        self._sampler = recall.Sampler(self._backends)
        self._thread = threading.Thread(target=self._run, name="rest-api")

    @property
    def url(self) -> str:
        """The API's URL; valid once the server has started."""
        _, port = self._server.bind_addr
        return f"http://{wiring.API_ADDRESS}:{port}"

    def start(self) -> None:
        """Start listening.

        :raises OSError: if the port is in use.
        :raises ConfigurationError: if the port for metrics is in use.
        """
        self._metrics.start()
        self._server.prepare()
        self._pulse.start()
        self._sampler.start()
        self._thread.start()

    def stop(self) -> None:
        """End waiting requests, and stop listening."""
        self._backends.waiting.close()
        self._server.stop()
        if self._thread.is_alive():
            self._thread.join()
        self._metrics.stop()
        self._sampler.stop()
        self._pulse.stop()

    def _run(self) -> None:
        try:
            self._server.serve()
        except Exception as error:
            LOG.exception("The REST API failed")
            self._on_failure(f"the REST API failed: {error}")


def _log(message: str = "", level: int = 20, traceback: bool = False) -> None:
    LOG.log(level, "Web server: %s", message, exc_info=traceback)
