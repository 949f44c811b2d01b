# SPDX-License-Identifier: Apache-2.0

"""TLS contexts that follow changes of their certificate files."""

from __future__ import annotations

import dataclasses
import os
import ssl
import threading

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

#: Inode, time of change and size: they differ after a file was changed.
_State = tuple[int, int, int]


@dataclasses.dataclass(eq=False)
class ServerContext:
    """The TLS context of a server, made again when its files change.

    New connections use the new context; existing ones keep theirs. If the
    files are unusable, for example because the key was not replaced yet, the
    last good context stays.

    :param cert_file: the certificate and its intermediate ones; PEM.
    :param client_ca_file: authority of the clients' certificates, which
        clients then need; None: clients need no certificate.
    :raises OSError: if the files cannot be used; ``ssl.SSLError`` is one.
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
        """Return the context for a new connection; checks the files."""
        with self._lock:
            try:
                states = self._read_states()
                if states != self._states:
                    self._context = self._make()
                    self._states = states
                    self._refused = None
                    LOG.info("The certificate %s has changed", self.cert_file)
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
        # The empty password keeps OpenSSL from asking at the terminal.
        context.load_cert_chain(self.cert_file, self.key_file, password="")
        if self.client_ca_file is not None:
            context.load_verify_locations(self.client_ca_file)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _log_unusable(self, error: OSError) -> None:
        """Log once per change that the files are unusable."""
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
