# SPDX-License-Identifier: Apache-2.0

"""The worker's own TLS certificate, which clients recognize by its hash."""

from __future__ import annotations

import datetime
import hashlib
import os
import threading
import typing

if typing.TYPE_CHECKING:
    import ssl

_VALIDITY = datetime.timedelta(days=3650)
_CLOCK_SKEW = datetime.timedelta(days=1)


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
                self._made = _make()
            return self._made


def _make() -> tuple[ssl.SSLContext, str]:
    # Only TLS needs these modules, which take a quarter of a worker's memory.
    import ssl

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [x509.NameAttribute(x509.NameOID.COMMON_NAME, "fpgapool worker")]
    )
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _VALIDITY)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding
    pem = certificate.public_bytes(encoding.PEM) + key.private_bytes(
        encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # The ssl module reads keys only from files, so use one in memory.
    fd = os.memfd_create("fpgapool-certificate", os.MFD_CLOEXEC)
    with os.fdopen(fd, "wb") as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{fd}")
    der = certificate.public_bytes(encoding.DER)
    return context, hashlib.sha256(der).hexdigest()
