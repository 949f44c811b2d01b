# SPDX-License-Identifier: Apache-2.0

"""What fpgapool-manage registers in the library, and what it does not."""

import argparse

import pytest

from fpgapool.bitstreams import files
from fpgapool.bitstreams import signatures
from fpgapool.cmd import manage
from fpgapool.cmd.managing import building
from fpgapool.common import arguments
from fpgapool.common import exception
from fpgapool.drivers.opencl.contents import dangers
from fpgapool.drivers.opencl.contents import package
from fpgapool.vocabulary import codes
from tests.unit.api import fakes
from tests.unit.bitstreams import samples
from tests.unit.drivers.opencl import packages
from tests.unit.drivers.opencl import xclbins

VADD = packages.manifest(kernel="vadd")


def parsed(*argv):
    parser = argparse.ArgumentParser(exit_on_error=False)
    arguments.add(building.ARGUMENTS, parser)
    return parser.parse_args(["--project=p1", *argv])


class Pool:
    """A library without its services."""

    def __init__(self, root) -> None:
        self.signer = samples.Signer(root / "keys")
        self.key = root / "private"
        self.key.write_bytes(self.signer.private_pem)
        self.conductor = fakes.FakeConductor()
        self.database = fakes.FakeDatabase(self.conductor)
        self.directory = root / "store"
        self.registry = building.Registry(
            self.conductor,
            self.database,
            files.FileStore(self.directory),
            10**6,
        )

    def register(self, made, *argv):
        found = package.unpack(made)
        return self.registry.register(made, found, parsed(*argv), "uid 7")

    @property
    def rows(self):
        return list(self.conductor.catalogue.bitstreams)

    @property
    def stored(self):
        return [path for path in self.directory.rglob("*") if path.is_file()]


@pytest.fixture
def pool(tmp_path):
    return Pool(tmp_path)


def test_what_is_registered(pool):
    made = packages.source()
    options = ("--shape=medium", "--bitstream-version=2.0", "--approve")
    made_id = pool.register(
        made, "--kernel=copy", f"--key={pool.key}", *options
    )
    (row,) = pool.rows
    assert (row.bitstream_id, row.state) == (made_id, "approved")
    assert (row.project_id, row.user_id) == ("p1", "uid 7")
    assert (row.accelerator, row.version) == ("mine", "2.0")
    assert (row.format, row.shapes) == ("opencl-source", ["medium"])
    assert row.profile["peak_bytes_per_s"] == 5e8
    assert not row.public
    pool.signer.trust()
    trusted = signatures.TrustedKeys(str(pool.signer.directory))
    assert trusted.verify(row.signature, samples.sha256(made)) == "release"
    (path,) = pool.stored
    assert path.read_bytes() == made


def test_an_xclbin_needs_no_key_and_has_its_own_shape(pool):
    made = package.pack("xclbin", VADD, xclbins.write())
    pool.register(made, "vadd.xclbin", "--public")
    (row,) = pool.rows
    assert (row.state, row.public, row.signature) == ("unapproved", True, "")
    assert row.shapes == [f"Xilinx-{xclbins.PLATFORM}"]


@pytest.mark.security
@pytest.mark.parametrize("kind", ["opencl-source", "opencl-binary"])
def test_native_code_needs_a_key(pool, kind):
    made = package.pack(kind, packages.manifest(), packages.SOURCE)
    with pytest.raises(exception.ConfigurationError, match="must be signed"):
        pool.register(made, "--kernel=copy", "--shape=medium")
    assert pool.rows == []


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["--project="], "--project"),
        (["--peak-bytes-per-s=0"], "peak_bytes_per_s"),
        (["--peak-bytes-per-s=nan"], "peak_bytes_per_s"),
        (["--key=/nowhere/key"], "/nowhere/key"),
    ],
)
def test_wrong_arguments_leave_nothing(pool, argv, reason):
    made = package.pack("xclbin", VADD, xclbins.write())
    with pytest.raises(exception.ConfigurationError, match=reason):
        pool.register(made, "vadd.xclbin", *argv)
    assert pool.rows == []


@pytest.mark.parametrize(
    ("members", "argv", "code"),
    [
        # A new accelerator needs a rate.
        ({"peak_bytes_per_s": None}, [], codes.INVALID_REQUEST),
        ({}, ["--peak-bytes-per-s=7"], codes.INVALID_MANIFEST),
        ({}, ["--shape=Xilinx-other"], codes.XCLBIN_OTHER_PLATFORM),
    ],
)
def test_what_the_library_refuses_leaves_nothing(pool, members, argv, code):
    manifest = packages.manifest(kernel="vadd", **members)
    made = package.pack("xclbin", manifest, xclbins.write())
    with pytest.raises(exception.BitstreamRefused) as caught:
        pool.register(made, "vadd.xclbin", *argv)
    assert caught.value.code == code
    assert (pool.rows, pool.stored) == ([], [])


def test_a_package_that_is_too_large(pool, tmp_path):
    made = package.pack("xclbin", VADD, xclbins.write(signature=bytes(10**6)))
    with pytest.raises(exception.BitstreamRefused) as caught:
        pool.register(made, "vadd.xclbin")
    assert caught.value.code == codes.BITSTREAM_TOO_LARGE
    assert (pool.rows, pool.stored) == ([], [])


def test_an_xclbin_is_packed_with_the_manifest_beside_it(tmp_path):
    path = tmp_path / "vadd.xclbin"
    path.write_bytes(xclbins.write())
    (tmp_path / "vadd.json").write_bytes(VADD)
    found, made = building.build(parsed(str(path)))
    assert (found.kind, found.manifest.name) == ("xclbin", "mine")
    assert package.unpack(made).payload == found.payload == xclbins.write()
    path.write_bytes(xclbins.write()[:-1])
    with pytest.raises(exception.BitstreamRefused) as caught:
        building.build(parsed(str(path)))
    assert caught.value.code == codes.XCLBIN_TRUNCATED


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["--kernel=novelty"],
        ["--kernel=copy", "file.cl"],
        ["--kernel=copy", "--bitstream-version=a b"],
    ],
)
def test_wrong_command_lines(argv, capsys):
    with pytest.raises((argparse.ArgumentError, SystemExit)):
        parsed(*argv)


def test_what_is_signed_is_checked(pool, tmp_path, capsys):
    def sign(made, *options):
        path = tmp_path / "made"
        path.write_bytes(made)
        argv = [f"--key={pool.key}", str(path), *options]
        status = manage.main(["bitstream", "sign", *argv])
        printed = capsys.readouterr()
        return status, printed.out.strip() or printed.err

    bad = package.pack("opencl-source", packages.manifest(), b"\n\nasm")
    status, said = sign(bad)
    assert (status, "SOURCE_REFUSED: line 3" in said) == (1, True)
    assert sign(bad, "--allow-pragmas")[0] == 1
    assert sign(bad, "--allow-assembly")[0] == 0
    pool.signer.trust()
    trusted = signatures.TrustedKeys(str(pool.signer.directory))
    good = packages.source()
    assert trusted.verify(sign(good)[1], samples.sha256(good)) == "release"
    binary = package.pack(
        "opencl-binary", packages.manifest(), packages.BINARY
    )
    status, said = sign(binary)
    assert (status, "--allow-binary" in said) == (1, True)
    assert sign(binary, "--allow-binary")[0] == 0
    status, said = sign(good[:-1])
    assert (status, "INVALID_PACKAGE" in said) == (1, True)
    # Files of other drivers are signed as they are.
    assert sign(b"asm")[0] == 0


def test_what_is_signed_is_what_was_read(pool, tmp_path, capsys, monkeypatch):
    path = tmp_path / "made"
    good = packages.source()
    path.write_bytes(good)
    check = dangers.check

    def swap(*arguments) -> None:
        check(*arguments)
        path.write_bytes(b"other")

    monkeypatch.setattr(dangers, "check", swap)
    argv = [f"--key={pool.key}", str(path)]
    assert manage.main(["bitstream", "sign", *argv]) == 0
    signature = capsys.readouterr().out.strip()
    pool.signer.trust()
    trusted = signatures.TrustedKeys(str(pool.signer.directory))
    assert trusted.verify(signature, samples.sha256(good)) == "release"
