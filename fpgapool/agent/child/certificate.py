# SPDX-License-Identifier: Apache-2.0

"""The worker's own TLS certificate, which clients recognize by its hash."""

from __future__ import annotations

import threading
import typing

if typing.TYPE_CHECKING:
    import ssl


#: Made beforehand, for the first certificate of this process.
_prepared: list[tuple[ssl.SSLContext, str]] = []


def prepare() -> None:
    """Make the certificate that this process will need, before it is asked.

    Never called in a process that is forked later: its children would share
    the key.
    """
    _prepared.append(_make())


def _make() -> tuple[ssl.SSLContext, str]:
    # Only TLS needs this module.
    from fpgapool.agent.child import selfsigned

    return selfsigned.make()


class Certificate:
    """A key and a self-signed certificate, created when first needed.

    The key exists only in this process and is never written to disk.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: tuple[ssl.SSLContext, str] | None = None

    def context(self) -> ssl.SSLContext:
        """Return the server's TLS context; the first call takes a moment."""
        return self._get()[0]

    def sha256(self) -> str:
        """Return the SHA-256 of the certificate in DER, as hexadecimal."""
        return self._get()[1]

    def _get(self) -> tuple[ssl.SSLContext, str]:
        with self._lock:
            if self._made is None:
                self._made = _prepared.pop() if _prepared else _make()
            return self._made
