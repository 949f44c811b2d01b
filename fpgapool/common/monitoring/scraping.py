# SPDX-License-Identifier: Apache-2.0

"""The HTTP server for metrics; it has few, short connections."""

from __future__ import annotations

import socket
import socketserver
import ssl
import time
import wsgiref.simple_server
from collections.abc import Callable
from typing import Any

from fpgapool.common import tls
from fpgapool.common.channels import pending

#: Prometheus needs only one connection.
MAX_CONNECTIONS = 16

#: How long a client may neither send nor read anything.
PATIENCE_S = 10.0


class _Handler(wsgiref.simple_server.WSGIRequestHandler):
    timeout = PATIENCE_S

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: there is a scrape every few seconds."""


class Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    """Serves a WSGI application, with one thread per connection.

    If there are too many connections, it closes one of the oldest.

    :param address: host name or IP address, and port; 0: any free port.
    """

    daemon_threads = True
    # With fewer, many clients at once would try again after seconds.
    request_queue_size = 4 * MAX_CONNECTIONS

    def __init__(
        self,
        address: tuple[str, int],
        app: Callable[..., Any],
        certificate: tls.ServerContext | None = None,
    ) -> None:
        self._certificate = certificate
        self._clients = pending.PendingConnections(MAX_CONNECTIONS)
        found = socket.getaddrinfo(
            *address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        self.address_family = found[0][0]
        super().__init__(found[0][4][:2], _Handler)  # type: ignore[arg-type]
        self.set_app(app)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection; its own thread performs the handshake."""
        try:
            sock, address = super().get_request()
        except (BlockingIOError, ConnectionAbortedError):
            raise
        except OSError:
            time.sleep(pending.ACCEPT_PAUSE_S)
            raise
        sock.settimeout(PATIENCE_S)
        if self._certificate is not None:
            sock = self._certificate.current().wrap_socket(
                sock, server_side=True, do_handshake_on_connect=False
            )
        self._clients.enter(sock, address[0])
        return sock, address

    def shutdown_request(self, request: Any) -> None:
        self._clients.leave(request)
        super().shutdown_request(request)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Perform the handshake if TLS is used, and answer the request."""
        if isinstance(request, ssl.SSLSocket):
            request.do_handshake()
        super().finish_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: clients may disconnect or be disconnected."""
