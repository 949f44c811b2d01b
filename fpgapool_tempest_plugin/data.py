# SPDX-License-Identifier: Apache-2.0

"""Data through an accelerator, by the client library as programs use it."""

from __future__ import annotations

import hashlib
import json
import typing

from keystoneauth1 import adapter
from keystoneauth1 import session as sessions
from keystoneauth1 import token_endpoint
from tempest import config

from fpgapool import client as programs
from fpgapool_tempest_plugin import client

CONF = config.CONF

#: What ``output_sha256`` tells the output of.
INPUT = bytes(range(256)) * 16


class Stream:
    """A connected session that is given its input piece by piece.

    :param pool: reaches the API.
    :param request_id: names the session; None: any name.
    :param token: of the one who opens it; by default that of the client.
    """

    def __init__(
        self,
        pool: client.PoolClient,
        *,
        request_id: str | None = None,
        token: str = "",
    ) -> None:
        self._sent_bytes = 0
        self._output = b""
        self.session = programs.acc_open(
            CONF.fpgapool.accelerator,
            len(INPUT),
            params=json.loads(CONF.fpgapool.accelerator_params),
            front_door=_front_door(pool, token or pool.user_token),
            request_id=request_id,
            timeout_s=CONF.fpgapool.build_timeout,
        )

    def send(self, length_bytes: int) -> None:
        """Have the next piece of the input processed."""
        end = self._sent_bytes + length_bytes
        piece = INPUT[self._sent_bytes : end]
        self.session.pin[: len(piece)] = piece
        self._output += bytes(self.session.run(len(piece)))
        self._sent_bytes = end

    def finish(self) -> None:
        """Send the rest, and close the session.

        :raises AssertionError: if the output is wrong.
        """
        self.send(len(INPUT) - self._sent_bytes)
        self._output += bytes(self.session.finish())
        self.session.close()
        expected = (
            CONF.fpgapool.output_sha256 or hashlib.sha256(INPUT).hexdigest()
        )
        found = hashlib.sha256(self._output).hexdigest()
        if found != expected.lower():
            raise AssertionError(
                f"the SHA-256 of the output is {found}, not {expected}"
            )

    def abort(self) -> None:
        """End it, if it has not ended."""
        self.session.abort()


def _front_door(pool: client.PoolClient, token: str) -> typing.Any:
    identity = CONF.identity
    verify = not identity.disable_ssl_certificate_validation
    if verify and identity.ca_certificates_file:
        verify = identity.ca_certificates_file
    return programs.PoolApi(
        adapter.Adapter(
            sessions.Session(
                auth=token_endpoint.Token(pool.url, token), verify=verify
            ),
            service_type="fpgapool",
            endpoint_override=pool.url,
        )
    )
