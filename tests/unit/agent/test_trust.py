# SPDX-License-Identifier: Apache-2.0

"""What an agent lets into its slots, by the keys of now."""

from __future__ import annotations

import typing

import pytest
from oslo_config import cfg
from oslo_log import log as logging

from fpgapool import conf as fpgapool_conf
from fpgapool import objects
from fpgapool.agent import settings
from fpgapool.agent.bitstreams import trust
from fpgapool.agent.slots import orders
from fpgapool.bitstreams import signatures
from tests.unit.agent import factories
from tests.unit.bitstreams import samples

KEY = ("board0", 0)
CHECKSUM = samples.sha256(b"a bitstream")
OTHER_CHECKSUM = samples.sha256(b"another")


@pytest.fixture
def signer(tmp_path):
    made = samples.Signer(tmp_path / "keys")
    made.trust("release.pem")
    return made


@pytest.fixture
def trusted(signer):
    return trust.Trust(signatures.TrustedKeys(str(signer.directory)), True)


def signed(signer, **changes: typing.Any) -> objects.BitstreamRef:
    members = {
        "bitstream_id": "7f000000-0000-4000-8000-00000000000b",
        "checksum_sha256": CHECKSUM,
        "size_bytes": 100,
        "signature": signatures.sign(signer.private_pem, CHECKSUM),
        **changes,
    }
    return objects.BitstreamRef(**members)


def order(
    reference: objects.BitstreamRef | None, **changes: typing.Any
) -> orders.ToWorker:
    """What the table has a worker told."""
    made = factories.make_table()
    made.worker_connected(KEY)
    made.worker_status(KEY, factories.status(), 0.0)
    request = factories.assign_request(7, bitstream_ref=reference, **changes)
    effects = made.assign(5, request, 0.0)
    effects += made.bitstream_ready(KEY, 7, "/cache/file")
    (found,) = [one for one in effects if isinstance(one, orders.ToWorker)]
    return found


def test_what_a_trusted_key_has_signed_may_be_programmed(signer, trusted):
    assert trusted.objection(order(signed(signer))) is None


def test_keys_are_those_of_now(signer, trusted):
    wanted = order(signed(signer))
    path = signer.directory / "release.pem"
    content = path.read_bytes()
    for damage in (path.unlink, path.touch, lambda: path.write_text("key")):
        damage()
        assert "no trusted key" in trusted.objection(wanted)
    path.write_bytes(content)
    assert trusted.objection(wanted) is None


@pytest.mark.parametrize(
    ("changes", "objection"),
    [
        ({"signature": ""}, "no signature"),
        ({"signature": "?"}, "not base64"),
        ({"signature": "AAAA"}, "no trusted key"),
        ({"checksum_sha256": OTHER_CHECKSUM}, "no trusted key"),
        ({"checksum_sha256": "x" * 64}, "hexadecimal"),
    ],
)
def test_the_conductors_word_is_not_enough(
    signer, trusted, changes, objection
):
    assert objection in trusted.objection(order(signed(signer, **changes)))


def test_keys_that_cannot_be_read_count_as_none(signer, trusted):
    wanted = order(signed(signer))
    (signer.directory / "release.pem").unlink()
    signer.directory.rmdir()
    assert "no trusted key" in trusted.objection(wanted)
    signer.directory.write_text("no directory")
    assert "trusted_keys_dir" in trusted.objection(wanted)


def test_what_a_slot_has_cannot_be_named_without_its_signature(trusted):
    wanted = order(None, bitstream=f"bitstream:{CHECKSUM}")
    assert "neither checksum" in trusted.objection(wanted)
    assert trusted.objection(order(None)) is None


def test_drivers_get_the_name_of_what_was_signed(signer):
    """The name of what the slot has would keep it from being programmed."""
    sent = order(signed(signer), bitstream="bitstream:what-the-slot-has")
    assert sent.members["bitstream"] == f"bitstream:{CHECKSUM}"


@pytest.mark.security
@pytest.mark.parametrize("file_format", ["opencl-source", "opencl-binary"])
def test_native_code_needs_a_signature_whatever_is_configured(
    tmp_path, signer, file_format
):
    found = configured(tmp_path, signer, False)
    native = signed(signer, format=file_format)
    assert found.objection(order(native)) is None
    unsigned = signed(signer, format=file_format, signature="")
    assert "no signature" in found.objection(order(unsigned))
    other = samples.Signer(tmp_path / "other")
    stranger = signed(other, format=file_format)
    assert "no trusted key" in found.objection(order(stranger))
    # Nor does a host without keys.
    assert "no key" in trust.Trust(None, False).objection(order(native))


@pytest.mark.parametrize("required", [True, False])
def test_an_xclbin_follows_the_configuration(tmp_path, signer, required):
    found = configured(tmp_path, signer, required)
    unsigned = order(signed(signer, format="xclbin", signature=""))
    assert (found.objection(unsigned) is not None) == required


def configured(tmp_path, signer, required: bool) -> trust.Trust:
    config_file = tmp_path / "fpgapool.conf"
    config_file.write_text(
        "[agent]\ndriver = noop\n"
        f"[bitstreams]\nsignature_required = {required}\n"
        f"trusted_keys_dir = {signer.directory}\n"
    )
    conf = cfg.ConfigOpts()
    fpgapool_conf.register_opts(conf)
    logging.register_options(conf)
    conf([], default_config_files=[str(config_file)])
    made = settings.AgentSettings.from_conf(conf)
    return trust.Trust(made.trusted_keys, made.signature_required)


@pytest.mark.parametrize("required", [True, False])
def test_signatures_are_verified_where_they_are_required(
    tmp_path, signer, required
):
    found = configured(tmp_path, signer, required)
    assert found.objection(order(signed(signer))) is None
    unsigned = order(signed(signer, signature=""))
    assert (found.objection(unsigned) is not None) == required
