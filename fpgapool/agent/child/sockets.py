# SPDX-License-Identifier: Apache-2.0

"""The sockets of a process: its agent's and its clients'."""

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
from fpgapool.protocol import messages


class Sockets:
    """The control socket and the data port, with its certificate.

    :param server: serves clients that have identified themselves.
    :param on_agent: called with each new agent, in a thread that must not
        block.
    :param on_request: called with each request, in a thread of its agent's
        own.
    :param on_gone: called with the agent when its connection has ended.
    :param expect: called with the HELLO; waits briefly if a client is early.
    :raises OSError: if a Unix socket cannot be made.
    :raises port.PortUnavailable: if there is no TCP port.
    """

    def __init__(
        self,
        settings: child_settings.ChildSettings,
        server: port.Server,
        parse: Callable[[dict[str, typing.Any]], typing.Any],
        on_agent: Callable[[control.Agent], None],
        on_request: Callable[[control.Agent, messages.Message], None],
        on_gone: Callable[[control.Agent], None],
        expect: Callable[[typing.Any], None] | None = None,
    ) -> None:
        self._certificate = (
            certificates.Certificate()
            if settings.tls and settings.data_address is not None
            else None
        )
        self._port = port.DataPort(
            settings, server, self._certificate, parse, expect
        )
        self._control = control.ControlSocket(
            settings.control_socket, on_agent, on_request, on_gone
        )

    @property
    def tcp_port(self) -> int | None:
        """Number of the TCP port, None if there is none."""
        return self._port.tcp_port

    def certificate_sha256(self) -> str | None:
        """Return the certificate hash by which clients recognize this process.

        :returns: None without TLS. The first call creates the certificate.
        """
        certificate = self._certificate
        return None if certificate is None else certificate.sha256()

    def serve(self) -> None:
        """Accept connections from now on, in threads of their own."""
        selector = selectors.DefaultSelector()
        self._control.register(selector)
        self._port.register(selector)
        crew.CREW.start("accept", process.accept_forever, selector)
        if self._certificate is not None:
            crew.CREW.start("certificate", self._certificate.context)

    def close(self) -> None:
        """Stop listening and remove the Unix sockets."""
        self._control.close()
        self._port.close()
