# SPDX-License-Identifier: Apache-2.0

"""Blocking byte channels over TLS, with a pinned peer certificate."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import socket
import threading
import typing

from fpgapool.common.channels import channel
from fpgapool.common.channels import waits
from fpgapool.protocol import frames

if typing.TYPE_CHECKING:
    import ssl

# Bytes to encrypt or receive in one step: several records. Meanwhile, the
# thread holds the TLS object's lock, which the other direction needs, too.
_TLS_SEND_BYTES = 64 * 1024
_TLS_RECEIVE_BYTES = 256 * 1024
_TLS_RECORD_BYTES = 16 * 1024


class PinMismatch(ConnectionError):
    """The peer's certificate is not the expected one."""


class TlsChannel(channel.Channel):
    """A channel over TLS.

    Two threads must not use a TLS object at once, so a lock guards every call
    to the library. The TLS object works on bytes in memory. This class moves
    many records at once between memory and the socket, without holding the
    lock. So a direction never waits for the other's socket operations, and
    there are few system calls.

    Use :meth:`connect` or :meth:`accept`, which perform the handshake.

    :param server_side: whether this is the server.
    """

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, server_side: bool
    ) -> None:
        import ssl

        super().__init__(sock)
        waits.prepare(sock)
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side
        )
        self._want_read = ssl.SSLWantReadError
        self._tls_lock = threading.Lock()
        self._received = memoryview(bytearray(_TLS_RECEIVE_BYTES))

    @classmethod
    def connect(
        cls,
        sock: socket.socket,
        certificate_sha256: str,
        deadline_s: float | None = None,
    ) -> TlsChannel:
        """Perform the handshake as client and check the peer's certificate.

        :param sock: a connected TCP socket; closed if this fails.
        :param certificate_sha256: SHA-256 of the DER form of the certificate
            that the peer must have, as 64 hexadecimal digits.
        :raises PinMismatch: if the peer has a different certificate.
        """
        return cls._start(
            sock,
            make_client_tls_context(),
            deadline_s,
            certificate_sha256=certificate_sha256,
        )

    @classmethod
    def accept(
        cls,
        sock: socket.socket,
        context: ssl.SSLContext,
        deadline_s: float | None = None,
    ) -> TlsChannel:
        """Perform the handshake as server.

        :param sock: an accepted TCP socket; closed if this fails.
        """
        return cls._start(sock, context, deadline_s)

    @classmethod
    def _start(
        cls,
        sock: socket.socket,
        context: ssl.SSLContext,
        deadline_s: float | None,
        certificate_sha256: str | None = None,
    ) -> TlsChannel:
        made = cls(sock, context, certificate_sha256 is None)
        try:
            made._shake_hands(deadline_s)
            if certificate_sha256 is not None:
                check_pin(made._tls, certificate_sha256)
        except BaseException:
            made.close()
            raise
        return made

    def _shake_hands(self, deadline_s: float | None) -> None:
        done = False
        while not done:
            try:
                self._tls.do_handshake()
                done = True
            except self._want_read:
                pass
            except OSError as exc:
                # Send the library's alert, which contains the reason.
                with contextlib.suppress(channel.ChannelClosed):
                    self._flush(deadline_s)
                raise channel.ChannelClosed(
                    f"TLS handshake failed: {exc}"
                ) from exc
            self._flush(deadline_s)
            if not done:
                self._receive(deadline_s)

    def recv_some_into(
        self, buffer: memoryview, deadline_s: float | None = None
    ) -> int:
        while True:
            with self._tls_lock:
                filled_bytes = self._decrypt(buffer)
            if filled_bytes:
                return filled_bytes
            self._receive(deadline_s)

    def _decrypt(self, buffer: memoryview) -> int:
        """Decrypt available bytes; the caller must hold the lock."""
        filled_bytes = 0
        try:
            while filled_bytes < len(buffer):
                # Each call returns at most one record.
                rest = buffer[filled_bytes:]
                more_bytes = self._tls.read(len(rest), rest)
                if not more_bytes:
                    break
                filled_bytes += more_bytes
            if not filled_bytes:
                raise channel.ChannelEnded("the peer closed the connection")
        except self._want_read:
            pass
        except channel.ChannelClosed:
            raise
        except OSError as exc:
            raise channel.ChannelClosed(f"TLS connection lost: {exc}") from exc
        return filled_bytes

    def _receive(self, deadline_s: float | None) -> None:
        received_bytes = self._recv(self._received, 0, deadline_s)
        with self._tls_lock:
            self._incoming.write(self._received[:received_bytes])

    def _send_parts(
        self, parts: tuple[frames.Buffer, ...], deadline_s: float | None
    ) -> None:
        if sum(map(len, parts)) <= _TLS_RECORD_BYTES:
            # Send one record instead of one per part.
            parts = (b"".join(parts),)
        for part in parts:
            rest = memoryview(part)
            while rest:
                data, rest = self._encrypt(rest)
                self._send_raw(memoryview(data), deadline_s)

    def _encrypt(self, rest: memoryview) -> tuple[bytes, memoryview]:
        """Encrypt some bytes; return the records and the remaining bytes."""
        with self._tls_lock:
            try:
                # The library encrypts everything that it is given.
                rest = rest[self._tls.write(rest[:_TLS_SEND_BYTES]) :]
            except OSError as exc:
                raise channel.ChannelClosed(
                    f"TLS connection lost: {exc}"
                ) from exc
            return self._outgoing.read(), rest

    def _flush(self, deadline_s: float | None) -> None:
        self._send_raw(memoryview(self._outgoing.read()), deadline_s)


def make_client_tls_context() -> ssl.SSLContext:
    """Make a TLS 1.3 context for clients, which must call :func:`check_pin`.

    It does not verify certificate chains: workers have self-signed
    certificates and are identified by their fingerprints.
    """
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def check_pin(tls: ssl.SSLObject, certificate_sha256: str) -> None:
    """Check that the peer has the expected certificate.

    :param certificate_sha256: SHA-256 of its DER form, in hexadecimal.
    :raises PinMismatch: if it is a different certificate.
    """
    certificate = tls.getpeercert(binary_form=True) or b""
    found = hashlib.sha256(certificate).hexdigest()
    expected = certificate_sha256.lower().encode(errors="replace")
    if not hmac.compare_digest(found.encode(), expected):
        raise PinMismatch(
            f"the peer's certificate is not the expected one; its SHA-256 is"
            f" {found}"
        )
