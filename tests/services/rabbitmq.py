# SPDX-License-Identifier: Apache-2.0

"""A private RabbitMQ broker."""

import base64
import http.client
import itertools
import json
import secrets
import shlex
import socket
import typing
import urllib.parse

from tests.services import certificates
from tests.services import process

# The script itself, not the wrapper on the path: that one insists on the
# system's own user and directories.
_SERVER_SCRIPT = "/usr/lib/rabbitmq/bin/rabbitmq-server"
_AMQP_HEADER = b"AMQP\x00\x00\x09\x01"
_METHOD_FRAME = b"\x01"
_PROBE_LIMIT_S = 2.0
_HTTP_LIMIT_S = 30.0


class PortMapper(process.Service):
    """Erlang's port mapper, which else would start as a daemon and stay."""

    def __init__(self, workspace: process.Keeper) -> None:
        super().__init__("epmd", workspace)
        self.port = workspace.port("epmd")
        self._program = process.find_program("epmd", "erlang-base")

    def command(self) -> list[str]:
        """Return the command line."""
        return [
            self._program,
            "-port",
            str(self.port),
            "-address",
            process.LOOPBACK,
        ]

    def ports(self) -> tuple[int, ...]:
        """Return the TCP ports that the server listens on."""
        return (self.port,)

    def is_ready(self) -> bool:
        """Tell whether it accepts connections."""
        return not process.port_is_free(self.port)


class RabbitMQ(process.Service):
    """A broker with its own node name, port mapper, ports and data.

    :param tls: its certificate; AMQP is spoken by TLS only then, to clients
        with a certificate of the same authority. None means without TLS.
    """

    user = password = "guest"

    def __init__(
        self,
        workspace: process.Keeper,
        *,
        tls: certificates.Pair | None = None,
    ) -> None:
        super().__init__("rabbitmq", workspace)
        self._tls = tls
        self._script = process.find_program(
            "rabbitmq-server", "rabbitmq-server", _SERVER_SCRIPT
        )
        self.port = workspace.port("rabbitmq")
        self._management_port = workspace.port("rabbitmq-management")
        self._distribution_port = workspace.port("rabbitmq-distribution")
        self._port_mapper = PortMapper(workspace)
        # Other processes may make some on the same broker.
        self._vhost_prefix = f"test-{secrets.token_hex(4)}"
        self._vhost_numbers = itertools.count(1)
        self._write_configuration()

    def _write_configuration(self) -> None:
        files = {
            # Virtual hosts are made over HTTP in milliseconds; rabbitmqctl
            # would need seconds for each.
            "enabled_plugins": "[rabbitmq_management].\n",
            "rabbitmq-env.conf": "",
            "rabbitmq.conf": (
                f"{self._listeners()}"
                f"management.tcp.ip = {process.LOOPBACK}\n"
                f"management.tcp.port = {self._management_port}\n"
                # A nearly full disk must not block publishers here.
                "disk_free_limit.absolute = 1MB\n"
            ),
        }
        for name, text in files.items():
            (self.directory / name).write_text(text)

    def _listeners(self) -> str:
        address = f"{process.LOOPBACK}:{self.port}"
        if self._tls is None:
            return f"listeners.tcp.1 = {address}\n"
        return (
            "listeners.tcp = none\n"
            f"listeners.ssl.1 = {address}\n"
            f"ssl_options.cacertfile = {self._tls.ca_path}\n"
            f"ssl_options.certfile = {self._tls.certificate_path}\n"
            f"ssl_options.keyfile = {self._tls.key_path}\n"
            "ssl_options.verify = verify_peer\n"
            "ssl_options.fail_if_no_peer_cert = true\n"
        )

    def command(self) -> list[str]:
        """Return the command line."""
        return [self._script]

    def environment(self) -> dict[str, str]:
        """Return the whole environment.

        RabbitMQ also honours variables without its prefix, so that nothing
        may be inherited.
        """
        path = self.directory
        # These make a listener without TLS, whatever the file says.
        plain = {
            "RABBITMQ_NODE_IP_ADDRESS": process.LOOPBACK,
            "RABBITMQ_NODE_PORT": str(self.port),
        }
        return {
            **super().environment(),
            **(plain if self._tls is None else {}),
            "HOME": str(path),
            "ERL_EPMD_ADDRESS": process.LOOPBACK,
            "ERL_EPMD_PORT": str(self._port_mapper.port),
            "RABBITMQ_NODENAME": f"fpgapool-test-{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_MNESIA_BASE": str(path / "data"),
            "RABBITMQ_LOG_BASE": str(path / "log"),
            "RABBITMQ_CONFIG_FILE": str(path / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(path / "rabbitmq-env.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(path / "enabled_plugins"),
            # Two schedulers that do not spin: the machine has other work.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-kernel inet_dist_use_interface {127,0,0,1}"
                " +S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none"
            ),
        }

    def ports(self) -> tuple[int, ...]:
        """Return the TCP ports that the server listens on."""
        return (self.port, self._management_port, self._distribution_port)

    def start(self) -> None:
        """Start the port mapper and the broker; wait until it answers.

        :raises ServiceError: if one of them fails to.
        """
        self._port_mapper.start()
        super().start()

    def is_ready(self) -> bool:
        """Tell whether the broker greets an AMQP client."""
        try:
            with self._probe() as probe:
                probe.sendall(_AMQP_HEADER)
                return probe.recv(1) == _METHOD_FRAME
        except OSError:
            return False

    def _probe(self) -> socket.socket:
        sock = socket.create_connection(
            (process.LOOPBACK, self.port), _PROBE_LIMIT_S
        )
        if self._tls is None:
            return sock
        return self._tls.client_context().wrap_socket(
            sock, server_hostname=process.LOOPBACK
        )

    def _request(
        self, method: str, path: str, body: object = None
    ) -> typing.Any:
        connection = http.client.HTTPConnection(
            process.LOOPBACK, self._management_port, timeout=_HTTP_LIMIT_S
        )
        credentials = f"{self.user}:{self.password}".encode()
        headers = {
            "Authorization": b"Basic " + base64.b64encode(credentials),
            "Content-Type": "application/json",
        }
        try:
            connection.request(method, path, json.dumps(body), headers)
            response = connection.getresponse()
            answer = response.read().decode(errors="replace")
        finally:
            connection.close()
        if response.status >= 300:
            raise process.ServiceError(
                f"RabbitMQ answered {response.status} to {method} {path}:"
                f" {answer}"
            )
        return json.loads(answer) if answer else None

    def connections(self, vhost: str) -> list[dict[str, typing.Any]]:
        """Return what is known of a virtual host's connections.

        :param vhost: its name. New ones are known after some seconds.
        """
        return self._request("GET", f"/api/vhosts/{vhost}/connections")

    def queues(self, vhost: str) -> list[str]:
        """Return the names of a virtual host's queues."""
        found = self._request("GET", f"/api/queues/{vhost}?columns=name")
        return [one["name"] for one in found]

    def close_connection(self, name: str) -> None:
        """Close a connection."""
        self._request(
            "DELETE", f"/api/connections/{urllib.parse.quote(name, safe='')}"
        )

    def create_vhost(self, name: str | None = None) -> str:
        """Make a virtual host, which shares no queue with any other.

        :param name: one that may be there already; None means a new one.
        """
        name = name or f"{self._vhost_prefix}-{next(self._vhost_numbers)}"
        self._request("PUT", f"/api/vhosts/{name}", {})
        self._request(
            "PUT",
            f"/api/permissions/{name}/{self.user}",
            {"configure": ".*", "write": ".*", "read": ".*"},
        )
        return name

    def create_user(self, name: str, password: str) -> None:
        """Make a user who may do nothing yet.

        :param name: it may be there already.
        """
        self._request(
            "PUT", f"/api/users/{name}", {"password": password, "tags": ""}
        )

    def delete_user(self, name: str) -> None:
        """Remove a user; closes its connections."""
        self._request("DELETE", f"/api/users/{name}")

    def permit(self, command: str) -> None:
        """Do what a command of rabbitmqctl does, without starting it.

        :param command: a line that sets permissions, as a shell reads it.
        """
        _program, action, _option, vhost, user, *values = shlex.split(command)
        names = {
            "set_permissions": ("configure", "write", "read"),
            "set_topic_permissions": ("exchange", "write", "read"),
        }[action]
        path = action.removeprefix("set_").replace("_", "-")
        self._request(
            "PUT",
            f"/api/{path}/{vhost}/{user}",
            dict(zip(names, values, strict=True)),
        )

    def delete_vhost(self, name: str) -> None:
        """Remove a virtual host with its queues; closes its connections."""
        self._request("DELETE", f"/api/vhosts/{name}")

    def transport_url(
        self, vhost: str, user: str = user, password: str = password
    ) -> str:
        """Return the ``transport_url`` option for a virtual host.

        :param user: one who may use it; the default may do all.
        """
        return (
            f"rabbit://{user}:{password}@{process.LOOPBACK}:"
            f"{self.port}/{urllib.parse.quote(vhost, safe='')}"
        )
