# SPDX-License-Identifier: Apache-2.0

"""Signatures: by keys that are trusted, of what was sent."""

import base64
import datetime
import os

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.asymmetric import rsa

from fpgapool.bitstreams import signatures
from fpgapool.common import exception
from fpgapool.vocabulary import codes
from tests.unit.bitstreams import samples

CHECKSUM = samples.sha256(b"a bitstream")
FIRST = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

KEYS = {
    "rsa": rsa.generate_private_key(65537, 2048),
    "p256": ec.generate_private_key(ec.SECP256R1()),
    "p384": ec.generate_private_key(ec.SECP384R1()),
    "ed25519": ed25519.Ed25519PrivateKey.generate(),
}


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "keys"


@pytest.mark.parametrize("kind", KEYS)
def test_a_trusted_key_is_found(directory, kind):
    samples.Signer(directory).trust("another.pem")
    signer = samples.Signer(directory, KEYS[kind])
    signer.trust("zz-release.pub")
    signature = signatures.sign(signer.private_pem, CHECKSUM)
    trusted = signatures.TrustedKeys(str(directory))
    assert trusted.verify(signature, CHECKSUM) == "zz-release"
    with pytest.raises(exception.BitstreamRefused) as caught:
        trusted.verify(signature, samples.sha256(b"another"))
    assert caught.value.code == codes.INVALID_SIGNATURE


def test_an_unknown_key_is_refused(directory):
    samples.Signer(directory).trust()
    stranger = samples.Signer(directory)
    signature = signatures.sign(stranger.private_pem, CHECKSUM)
    with pytest.raises(exception.BitstreamRefused, match="no trusted key"):
        signatures.TrustedKeys(str(directory)).verify(signature, CHECKSUM)


def test_a_key_that_was_removed_counts_no_more(directory):
    signer = samples.Signer(directory)
    signer.trust()
    signature = signatures.sign(signer.private_pem, CHECKSUM)
    trusted = signatures.TrustedKeys(str(directory))
    trusted.verify(signature, CHECKSUM)
    (directory / "release.pem").unlink()
    with pytest.raises(exception.BitstreamRefused):
        trusted.verify(signature, CHECKSUM)


def test_without_a_directory_nothing_is_trusted(directory):
    signature = signatures.sign(
        samples.Signer(directory).private_pem, CHECKSUM
    )
    with pytest.raises(exception.BitstreamRefused):
        signatures.TrustedKeys(str(directory)).verify(signature, CHECKSUM)


@pytest.mark.parametrize(
    ("now_days", "is_valid"), [(-1, False), (5, True), (11, False)]
)
def test_certificates_count_while_they_are_valid(
    directory, now_days, is_valid
):
    signer = samples.Signer(directory, KEYS["p256"])
    signer.certify(FIRST, 10)
    signature = signatures.sign(signer.private_pem, CHECKSUM)
    now = FIRST + datetime.timedelta(days=now_days)
    trusted = signatures.TrustedKeys(str(directory), lambda: now)
    if is_valid:
        assert trusted.verify(signature, CHECKSUM) == "certificate"
        return
    with pytest.raises(exception.BitstreamRefused):
        trusted.verify(signature, CHECKSUM)


def test_what_is_no_key_is_passed_over(directory):
    signer = samples.Signer(directory)
    signer.trust("z.pem")
    (directory / "a.pem").write_text("nonsense")
    (directory / "README").write_text("not looked at")
    (directory / "b.crt").mkdir()
    (directory / "c.pub").touch()
    (directory / "d.pem").symlink_to(directory / "nowhere")
    # To open one would wait for a writer.
    os.mkfifo(directory / "e.pem")
    signature = signatures.sign(signer.private_pem, CHECKSUM)
    trusted = signatures.TrustedKeys(str(directory))
    assert trusted.verify(signature, CHECKSUM) == "z"


@pytest.mark.parametrize(
    "signature",
    ["", "?", "AAAA", "A" * 4000, base64.b64encode(b"x" * 64).decode()],
)
def test_what_is_no_signature(directory, signature):
    samples.Signer(directory).trust()
    with pytest.raises(exception.BitstreamRefused) as caught:
        signatures.TrustedKeys(str(directory)).verify(signature, CHECKSUM)
    assert caught.value.code == codes.INVALID_SIGNATURE


def test_weak_and_broken_keys_do_not_sign(directory):
    weak = samples.Signer(directory, rsa.generate_private_key(65537, 1024))
    for pem in (weak.private_pem, b"nonsense"):
        with pytest.raises(exception.ConfigurationError):
            signatures.sign(pem, CHECKSUM)
