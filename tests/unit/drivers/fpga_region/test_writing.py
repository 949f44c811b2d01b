# SPDX-License-Identifier: Apache-2.0

"""What the helper of a region's worker writes, and what it refuses."""

import hashlib

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from fpgapool.bitstreams import signatures
from fpgapool.drivers import base
from fpgapool.drivers import selftest
from fpgapool.drivers.fpga_region import driver as drivers
from fpgapool.vocabulary import codes
from tests.unit.drivers.fpga_region import trees
from tests.unit.drivers.fpga_region.test_fpga_region import code_of
from tests.unit.drivers.fpga_region.test_fpga_region import copied
from tests.unit.drivers.fpga_region.test_fpga_region import library_file

CONTENTS = b"a partial bitstream"
KEY = ed25519.Ed25519PrivateKey.generate()
OTHER_KEY = ed25519.Ed25519PrivateKey.generate()


@pytest.fixture
def tree(tmp_path, monkeypatch):
    tree = trees.Tree(tmp_path)
    tree.play_kernel(monkeypatch)
    keys = tmp_path / "keys"
    keys.mkdir()
    (keys / "operator.pub").write_bytes(
        KEY.public_key().public_bytes(
            serialization.Encoding.PEM,
            serialization.PublicFormat.SubjectPublicKeyInfo,
        )
    )
    return tree


@pytest.fixture
def start(tree):
    """Start the driver of a worker, with its helper."""
    started = []

    def make(text=trees.MANAGER_BOARDS, device="kria0", **settings):
        made = drivers.FpgaRegionDriver(
            {
                "state_dir": str(tree.root / "state"),
                "trusted_keys_dir": str(tree.root / "keys"),
                **tree.settings(text),
                **settings,
            }
        )
        made.start_helper(device, 0)
        started.append(made)
        return made

    yield make
    for made in started:
        for helping in made._helpers.values():
            helping.end()


def signed(key, contents):
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return signatures.sign(pem, hashlib.sha256(contents).hexdigest())


def ask(driver, contents=CONTENTS, **members):
    """Ask the helper, as a worker does that lies."""
    members = {"accelerator": "copy", "signature": "", **members}
    return driver._helpers["kria0.0"].ask("program_file", contents, **members)


@pytest.mark.parametrize(
    ("text", "device"),
    [(trees.MANAGER_BOARDS, "kria0"), (trees.DFL_BOARDS, "pac0")],
)
def test_the_helper_programs_and_the_worker_does_not(
    tree, start, text, device
):
    driver = start(text, device)
    profile = driver.program(device, 0, "builtin:copy")
    assert tree.programmed == []
    assert tree.driver(text).discover()[0].slots[0].programmed == "copy"
    assert copied(driver, device) == b"some data"
    selftest.run(driver, device, 0, profile)
    driver.scrub(device, 0)


def test_a_file_of_the_library_goes_through_the_helper(tree, start):
    file = library_file(tree.root / "f", CONTENTS, accelerator="copy@p1")
    driver = start()
    driver.program("kria0", 0, "bitstream:x", file)
    assert tree.programmed == []
    assert driver.discover()[0].slots[0].programmed == "copy@p1"


def test_a_signed_file_is_programmed(tree, start):
    file = library_file(
        tree.root / "f", CONTENTS, signature=signed(KEY, CONTENTS)
    )
    driver = start(signature_required=True)
    driver.program("kria0", 0, "bitstream:x", file)
    assert driver.discover()[0].slots[0].programmed == "copy"
    # The operator's own file is not signed.
    driver.program("kria0", 0, "builtin:copy")


@pytest.mark.parametrize(
    ("signature", "code"),
    [
        ("", codes.SIGNATURE_REQUIRED),
        ("no base64", codes.INVALID_SIGNATURE),
        (signed(KEY, b"other contents"), codes.INVALID_SIGNATURE),
        (signed(OTHER_KEY, CONTENTS), codes.INVALID_SIGNATURE),
    ],
    ids=["none", "no base64", "other contents", "other key"],
)
def test_a_worker_that_lies_cannot_program(start, signature, code):
    driver = start(signature_required=True)
    assert code_of(lambda: ask(driver, signature=signature))[0] == code
    assert driver.discover()[0].slots[0].programmed is None


def test_a_host_without_keys_programs_nothing_that_must_be_signed(start):
    driver = start(signature_required=True, trusted_keys_dir=None)
    signature = signed(KEY, CONTENTS)
    code, message = code_of(lambda: ask(driver, signature=signature))
    assert code == codes.SIGNATURE_REQUIRED
    assert "trusts no keys" in message


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"accelerator": "copy\nsha"}, codes.INVALID_REQUEST),
        ({"accelerator": ""}, codes.INVALID_REQUEST),
        ({"path": "/etc/passwd"}, codes.INVALID_REQUEST),
    ],
)
def test_an_odd_request_changes_nothing(start, members, code):
    driver = start()
    driver.program("kria0", 0, "builtin:copy")
    assert code_of(lambda: ask(driver, **members))[0] == code
    assert driver.discover()[0].slots[0].programmed == "copy"


def test_the_record_names_what_the_helper_has_programmed(tree, start):
    driver = start()
    ask(driver, accelerator="aes")
    file = library_file(tree.root / "f", CONTENTS + b"!")
    driver.program("kria0", 0, "bitstream:x", file)
    writer = driver._writer(driver._slot("kria0", 0))
    digest = hashlib.sha256(CONTENTS + b"!").hexdigest()
    assert writer.programmed() == ("copy", digest)


def test_a_worker_without_its_helper_clears_its_slot_and_ends(tree, start):
    driver = start(trees.DFL_BOARDS, "pac0")
    driver.program("pac0", 0, "builtin:copy")
    assert copied(driver, "pac0", b"secret") == b"secret"
    driver._helpers["pac0.0"].end()
    assert code_of(driver.scrub, "pac0", 0)[0] == codes.PROCESS_SPENT
    memory = tree.root / "sys/class/fpga_region/region2/memory"
    assert memory.read_bytes() == b""
    assert tree.resets == 1


def test_a_worker_needs_its_own_region_only(tree):
    text = trees.MANAGER_BOARDS.replace(
        "shape: rp0", "shape: rp0, devices: [/dev/uio0, '/dev/dma*']"
    )
    needs = tree.driver(text).needs("kria0", 0)
    assert needs.devices == ("/dev/uio0", "/dev/dma*")
    assert needs.writable == ()
    assert needs.readable[-1] == str(
        tree.root / "sys/class/fpga_region/region0"
    )
    needs = tree.driver(trees.DFL_BOARDS).needs("pac0", 0)
    assert needs.devices == (str(tree.root / "dev/dfl-port.0"),)


@pytest.mark.parametrize("path", ["uio0", "/dev/", "/etc/passwd", "/dev//x"])
def test_device_files_are_below_dev(tree, path):
    text = trees.MANAGER_BOARDS.replace(
        "shape: rp0", f"shape: rp0, devices: [{path}]"
    )
    with pytest.raises(base.DriverError, match="must be a path below /dev"):
        tree.driver(text)
