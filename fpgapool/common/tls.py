# SPDX-License-Identifier: Apache-2.0

"""TLS contexts that are reloaded when their certificate files change."""

from __future__ import annotations

import dataclasses
import os
import ssl
import threading

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

#: Inode, modification time and size; at least one differs after a change.
_State = tuple[int, int, int]


@dataclasses.dataclass(eq=False)
class ServerContext:
    """The TLS context of a server, remade when its files change.

    New connections use the new context; existing ones keep theirs. If the
    files are unusable, for example because the key has not been replaced yet,
    the previous context stays in use.

    :param cert_file: PEM file with the certificate and intermediate ones.
    :param client_ca_file: PEM file with the CA that verifies clients'
        certificates; None: clients need no certificate.
    :raises OSError: or its subclass ``ssl.SSLError``, if a file is unusable.
    """

    cert_file: str
    key_file: str
    client_ca_file: str | None = None

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._states = self._read_states()
        self._refused: list[_State] | None = None
        self._context = self._make()

    def current(self) -> ssl.SSLContext:
        """Check the files, and return the context for a new connection."""
        with self._lock:
            try:
                states = self._read_states()
                if states != self._states:
                    self._context = self._make()
                    self._states = states
                    self._refused = None
                    LOG.info("Reloaded the certificate %s", self.cert_file)
            except OSError as error:
                self._log_unusable(error)
            return self._context

    def _read_states(self) -> list[_State]:
        names = (self.cert_file, self.key_file, self.client_ca_file)
        found = [os.stat(name) for name in names if name is not None]
        return [(one.st_ino, one.st_mtime_ns, one.st_size) for one in found]

    def _make(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # With an empty password, OpenSSL does not prompt for one.
        context.load_cert_chain(self.cert_file, self.key_file, password="")
        if self.client_ca_file is not None:
            context.load_verify_locations(self.client_ca_file)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _log_unusable(self, error: OSError) -> None:
        """Log that the files are unusable, once per change."""
        try:
            states = self._read_states()
        except OSError:
            states = []
        if states != self._refused:
            self._refused = states
            LOG.error(
                "The certificate %s has changed and is unusable: %s; the"
                " previous one stays in use",
                self.cert_file,
                error,
            )
