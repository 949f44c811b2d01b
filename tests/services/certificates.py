# SPDX-License-Identifier: Apache-2.0

"""An authority for certificates, made for one test."""

from __future__ import annotations

import dataclasses
import datetime
import ipaddress
import pathlib
import ssl

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.services import process

_CLOCK_SKEW = datetime.timedelta(days=1)
_VALIDITY = datetime.timedelta(days=2)


@dataclasses.dataclass(frozen=True)
class Pair:
    """A certificate and its key, in files.

    :ivar ca_path: of the authority that has signed it.
    """

    ca_path: pathlib.Path
    certificate_path: pathlib.Path
    key_path: pathlib.Path
    sha256: bytes

    def client_context(self) -> ssl.SSLContext:
        """Return what a client with it needs, which verifies servers."""
        context = ssl.create_default_context(cafile=str(self.ca_path))
        context.load_cert_chain(self.certificate_path, self.key_path)
        return context


class Authority:
    """Signs certificates that are good for a day.

    :param directory: for all files; servers that run as other users can read
        them there.
    :param name: of the authority, and of its file.
    """

    def __init__(self, directory: pathlib.Path, name: str) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(True, None), critical=True)
            .add_extension(_CA_USAGE, critical=True)
            .add_extension(_identifier(self._key), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.path = directory / f"{name}.pem"
        _write(self.path, _pem(certificate))

    def issue(
        self, name: str, *, address: str = process.LOOPBACK, file: str = ""
    ) -> Pair:
        """Make a certificate for a server or a client.

        :param file: beginning of the files' names, which are replaced if
            they exist; the default is the name.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        addresses = x509.SubjectAlternativeName(
            [x509.IPAddress(ipaddress.ip_address(address))]
        )
        certificate = (
            _builder(_name(name), self._name, key.public_key())
            .add_extension(addresses, critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(
                    _identifier(self._key)
                ),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
        stem = self._directory / (file or name)
        pair = Pair(
            self.path,
            stem.with_suffix(".crt"),
            stem.with_suffix(".key"),
            certificate.fingerprint(hashes.SHA256()),
        )
        _write(pair.certificate_path, _pem(certificate))
        _write(
            pair.key_path,
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )
        return pair


_CA_USAGE = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def _identifier(key: ec.EllipticCurvePrivateKey) -> x509.SubjectKeyIdentifier:
    return x509.SubjectKeyIdentifier.from_public_key(key.public_key())


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _VALIDITY)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write(path: pathlib.Path, data: bytes) -> None:
    # In one step: readers may look at any time. The key of a test is no
    # secret, and the database server runs as another user.
    fresh = path.with_name(path.name + ".new")
    fresh.write_bytes(data)
    fresh.chmod(0o644)
    fresh.replace(path)
