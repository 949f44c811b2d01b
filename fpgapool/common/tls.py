# SPDX-License-Identifier: Apache-2.0

"""Certificates of an operator's, as their files are now."""

from __future__ import annotations

import os
import ssl
import threading

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

#: What shows that a file has been replaced or written.
_State = tuple[int, int, int]


class ServerContext:
    """The TLS context of a server, made anew when its files change.

    A context is for connections that begin; those that are under way keep
    theirs. Files that cannot be used, as a certificate whose key has not been
    replaced yet, change nothing: the last good context stays.

    :param cert_file: the certificate, and those between it and the
        authority; PEM.
    :param key_file: its key.
    :param client_ca_file: authority of the clients' certificates, without
        which nobody is served then; None: clients need none.
    :raises OSError: if the files cannot be used; ``ssl.SSLError`` is one.
    """

    def __init__(
        self, cert_file: str, key_file: str, client_ca_file: str | None = None
    ) -> None:
        self._cert_file = cert_file
        self._key_file = key_file
        self._client_ca_file = client_ca_file
        self._lock = threading.Lock()
        self._states = self._look()
        self._refused: list[_State] | None = None
        self._context = self._make()

    def current(self) -> ssl.SSLContext:
        """Return the context for a new connection; looks at the files."""
        with self._lock:
            try:
                states = self._look()
                if states != self._states:
                    self._context = self._make()
                    self._states = states
                    self._refused = None
                    LOG.info("The certificate %s has changed", self._cert_file)
            except OSError as error:
                self._note(error)
            return self._context

    def _look(self) -> list[_State]:
        names = (self._cert_file, self._key_file, self._client_ca_file)
        found = [os.stat(name) for name in names if name is not None]
        return [(one.st_ino, one.st_mtime_ns, one.st_size) for one in found]

    def _make(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # With a password, OpenSSL would ask whoever is at the terminal.
        context.load_cert_chain(self._cert_file, self._key_file, password="")
        if self._client_ca_file is not None:
            context.load_verify_locations(self._client_ca_file)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _note(self, error: OSError) -> None:
        """Say once of a change that it cannot be used."""
        try:
            states = self._look()
        except OSError:
            states = []
        if states != self._refused:
            self._refused = states
            LOG.error(
                "The certificate %s has changed and cannot be used: %s; the"
                " last one stays in use",
                self._cert_file,
                error,
            )
