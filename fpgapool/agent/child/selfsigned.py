# SPDX-License-Identifier: Apache-2.0

"""Makes a self-signed certificate. Only TLS needs this module, whose imports
take a quarter of a worker's memory.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import ssl

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

_VALIDITY = datetime.timedelta(days=3650)
_CLOCK_SKEW = datetime.timedelta(days=1)

_NAME = x509.Name(
    [x509.NameAttribute(x509.NameOID.COMMON_NAME, "fpgapool worker")]
)
_NOW = datetime.datetime.now(datetime.UTC)
# In what all certificates are alike; workers share the memory of it.
_ALIKE = (
    x509.CertificateBuilder()
    .subject_name(_NAME)
    .issuer_name(_NAME)
    .not_valid_before(_NOW - _CLOCK_SKEW)
    .not_valid_after(_NOW + _VALIDITY)
)


def make() -> tuple[ssl.SSLContext, str]:
    """Return the server's TLS context, and its certificate's SHA-256."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _ALIKE.public_key(key.public_key())
        .serial_number(x509.random_serial_number())
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
