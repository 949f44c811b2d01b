# SPDX-License-Identifier: Apache-2.0

"""The sockets of a process, for its agent and its clients."""

from __future__ import annotations

import selectors
import typing
from collections.abc import Callable

from fpgapool.agent.child import certificate as certificates
from fpgapool.agent.child import control
from fpgapool.agent.child import crew
from fpgapool.agent.child import port
from fpgapool.agent.child import process
from fpgapool.agent.child import settings as child_settings


class Sockets:
    """The control socket and the data port, with its certificate.

    :param serve: serves clients that have identified themselves.
    :param early: where clients wait that come too early, if they may.
    :ivar tcp_port: number of the TCP port, or None without TCP.
    """

    def __init__(
        self,
        settings: child_settings.ChildSettings,
        agents: control.Newest,
        serve: port.Serve,
        parse: Callable[[dict[str, typing.Any]], typing.Any],
        early: port.Early | None = None,
    ) -> None:
        self._certificate = (
            certificates.Certificate()
            if settings.tls and settings.data_address is not None
            else None
        )
        self._port = port.DataPort(
            settings, serve, self._certificate, parse, early
        )
        self.tcp_port = self._port.tcp_port
        self._agents = agents
        self._control_path = settings.control_socket
        self._control = port.listen_unix(self._control_path)

    def certificate_sha256(self) -> str | None:
        """Return the certificate hash by which clients recognize this process.

        :returns: None without TLS. The first call creates the certificate.
        """
        certificate = self._certificate
        return None if certificate is None else certificate.sha256()

    def serve(self) -> None:
        """Start accepting connections, in separate threads."""
        selector = selectors.DefaultSelector()
        self._control.setblocking(False)
        selector.register(
            self._control, selectors.EVENT_READ, self._agents.accept
        )
        self._port.register(selector)
        crew.CREW.start("accept", process.accept_forever, selector)
        if self._certificate is not None:
            crew.CREW.start("certificate", self._certificate.context)

    def close(self) -> None:
        port.close_unix(self._control, self._control_path)
        self._port.close()
