# SPDX-License-Identifier: Apache-2.0

"""Detached signatures of bitstream files.

A signature covers the SHA-256 of the file. RSA keys sign it with PSS and
elliptic curve keys with ECDSA; Ed25519 keys sign its 32 bytes as the message.
Signatures are encoded in base64.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import hashlib
import pathlib
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

from cryptography import exceptions as crypto_exceptions
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric import utils

from fpgapool.bitstreams import base
from fpgapool.common import exception
from fpgapool.common.monitoring import ratelimit
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import formats

# Rate-limited, because each verification logs every unusable key.
LOG = ratelimit.RateLimitedLog(__name__)

_SUFFIXES = frozenset({".pem", ".crt", ".pub"})
_MAX_KEY_FILE_BYTES = 65536
_MAX_SIGNATURE_LENGTH = 2048
_LEAST_RSA_BITS = 2048

_HASH = utils.Prehashed(hashes.SHA256())
_PSS = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.DIGEST_LENGTH)


def is_needed(file_format: str, required: bool) -> bool:
    """Whether a bitstream must be signed.

    :param required: whether the configuration requires signatures on all
        bitstreams. Native code always requires one.
    """
    return required or file_format in formats.NATIVE_CODE


def sign(private_key_pem: bytes, checksum_sha256: str) -> str:
    """Sign a checksum, or raise ConfigurationError if the key is unusable."""
    digest = bytes.fromhex(checksum_sha256)
    try:
        key = serialization.load_pem_private_key(private_key_pem, None)
    except (
        ValueError,
        TypeError,
        crypto_exceptions.UnsupportedAlgorithm,
    ) as e:
        raise exception.ConfigurationError(
            reason=f"cannot read the key: {e}"
        ) from e
    match key:
        case rsa.RSAPrivateKey() if key.key_size >= _LEAST_RSA_BITS:
            signature = key.sign(digest, _PSS, _HASH)
        case ec.EllipticCurvePrivateKey():
            signature = key.sign(digest, ec.ECDSA(_HASH))
        case ed25519.Ed25519PrivateKey():
            signature = key.sign(digest)
        case _:
            raise exception.ConfigurationError(
                reason="the key must be an RSA key of at least 2048 bits, an"
                " elliptic curve key or an Ed25519 key"
            )
    return base64.b64encode(signature).decode()


def checksum_of(path: pathlib.Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal, or raise OSError."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(base.CHUNK_BYTES):
            found.update(chunk)
    return found.hexdigest()


class TrustedKeys:
    """The keys that the operator trusts.

    They are read at each use, so a removed key is no longer trusted.

    :ivar directory: directory with the key files; it need not exist.
    :param now: returns the time at which certificates must be valid.
    """

    def __init__(
        self,
        directory: str,
        now: Callable[[], datetime.datetime] | None = None,
    ) -> None:
        self.directory = pathlib.Path(directory)
        self._now = now or _now

    def verify(self, signature: str, checksum_sha256: str) -> str:
        """Return the name of the trusted key that signed a checksum.

        :raises BitstreamRefused: if no trusted key has signed it.
        """
        raw = _decode(signature)
        digest = bytes.fromhex(checksum_sha256)
        for name, key in self._keys():
            if _is_signed(key, raw, digest):
                return name
        raise _invalid("no trusted key has signed this file")

    def signer(
        self,
        signature: str,
        checksum_sha256: str,
        file_format: str,
        *,
        required: bool,
    ) -> str:
        """Return the name of the key that signed a bitstream; empty if none.

        :param checksum_sha256: in hexadecimal; empty: there is no file yet.
        :raises BitstreamRefused: if a required signature is missing, or the
            signature was not made with a trusted key.
        """
        if signature and checksum_sha256:
            return self.verify(signature, checksum_sha256)
        if is_needed(file_format, required) and checksum_sha256:
            raise exception.BitstreamRefused(
                "the pool accepts only bitstreams that a trusted key has"
                " signed",
                code=codes.SIGNATURE_REQUIRED,
            )
        return ""

    def _keys(self) -> Iterator[tuple[str, Any]]:
        try:
            paths = sorted(self.directory.iterdir())
        except FileNotFoundError:
            return
        except OSError as error:
            raise exception.ConfigurationError(
                reason=f"[bitstreams] trusted_keys_dir: {error.strerror}"
            ) from error
        for path in paths:
            if path.suffix in _SUFFIXES:
                try:
                    yield path.stem, self._load(path)
                except (
                    OSError,
                    ValueError,
                    crypto_exceptions.UnsupportedAlgorithm,
                ) as error:
                    LOG.warning("Ignoring trusted key %s: %s", path, error)

    def _load(self, path: pathlib.Path) -> Any:
        """:raises ValueError: if the file does not contain a valid key."""
        # Opening a named pipe would block until a writer opens it.
        if not path.is_file():
            raise ValueError("not a regular file")
        with open(path, "rb") as file:
            data = file.read(_MAX_KEY_FILE_BYTES)
        if b"BEGIN CERTIFICATE" not in data:
            return serialization.load_pem_public_key(data)
        certificate = x509.load_pem_x509_certificate(data)
        first = certificate.not_valid_before_utc
        if not first <= self._now() <= certificate.not_valid_after_utc:
            raise ValueError("the certificate has expired or is not yet valid")
        return certificate.public_key()


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _decode(signature: str) -> bytes:
    if len(signature) > _MAX_SIGNATURE_LENGTH:
        raise _invalid("the signature is too long")
    try:
        return base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        raise _invalid("the signature is not base64") from None


def _is_signed(key: Any, signature: bytes, digest: bytes) -> bool:
    try:
        match key:
            case rsa.RSAPublicKey() if key.key_size >= _LEAST_RSA_BITS:
                key.verify(signature, digest, _PSS, _HASH)
            case ec.EllipticCurvePublicKey():
                key.verify(signature, digest, ec.ECDSA(_HASH))
            case ed25519.Ed25519PublicKey():
                key.verify(signature, digest)
            case _:
                return False
    except crypto_exceptions.InvalidSignature:
        return False
    return True


def _invalid(why: str) -> exception.BitstreamRefused:
    return exception.BitstreamRefused(why, code=codes.INVALID_SIGNATURE)
