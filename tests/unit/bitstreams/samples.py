# SPDX-License-Identifier: Apache-2.0

"""What the tests of bitstreams have in common."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import io
import pathlib
import uuid
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.x509 import oid

from fpgapool.bitstreams import intake
from fpgapool.bitstreams import library
from fpgapool.db import api as db_api

PROFILE = {"peak_bytes_per_s": 1e8, "core": "copy"}
BUILTIN = db_api.AcceleratorRecord(
    name="aes",
    profile={
        "peak_bytes_per_s": 1e9,
        "return_ratio": 1.0,
        "stateless": True,
        "core": "aes",
    },
)


def sha256(data: bytes) -> str:
    """Return a checksum, hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def record(number: int = 1, **members: Any) -> db_api.BitstreamRecord:
    """Return an approved, private bitstream of project p1."""
    values: dict[str, Any] = {
        "bitstream_id": str(uuid.UUID(int=number)),
        "project_id": "p1",
        "user_id": "u1",
        "name": f"bitstream {number}",
        "accelerator": "mine",
        "version": "1.0",
        "format": "binary",
        "state": library.APPROVED,
        "shapes": ["medium"],
        "projects": [],
        "profile": dict(PROFILE),
        "checksum_sha256": sha256(str(number).encode()),
        "size_bytes": 10,
        "location": f"place{number}",
        "created_at": float(number),
        "updated_at": float(number),
    }
    return db_api.BitstreamRecord(id=number, **{**values, **members})


def incoming(data: bytes, **options: Any) -> intake.Intake:
    """Return a file that is being sent."""
    members = {"length_bytes": len(data), "max_bytes": 10**9, **options}
    return intake.Intake(io.BytesIO(data), **members)


class Broken:
    """A sender that goes in the middle."""

    def __init__(self, data: bytes) -> None:
        self._parts = [data]

    def read(self, size: int, /) -> bytes:
        if self._parts:
            return self._parts.pop()
        raise ConnectionResetError("gone")


@dataclasses.dataclass
class Signer:
    """A key, and where it is trusted."""

    directory: pathlib.Path
    key: Any = dataclasses.field(
        default_factory=ed25519.Ed25519PrivateKey.generate
    )

    @property
    def private_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    def trust(self, name: str = "release.pem") -> None:
        """Put the public key where trusted ones are."""
        self.directory.mkdir(exist_ok=True)
        (self.directory / name).write_bytes(
            self.key.public_key().public_bytes(
                serialization.Encoding.PEM,
                serialization.PublicFormat.SubjectPublicKeyInfo,
            )
        )

    def certify(self, first: datetime.datetime, days: int) -> None:
        """Put a certificate there."""
        name = x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME, "me")])
        algorithm = (
            None
            if isinstance(self.key, ed25519.Ed25519PrivateKey)
            else hashes.SHA256()
        )
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(self.key.public_key())
            .serial_number(1)
            .not_valid_before(first)
            .not_valid_after(first + datetime.timedelta(days=days))
            .sign(self.key, algorithm)
        )
        self.directory.mkdir(exist_ok=True)
        (self.directory / "certificate.crt").write_bytes(
            certificate.public_bytes(serialization.Encoding.PEM)
        )
