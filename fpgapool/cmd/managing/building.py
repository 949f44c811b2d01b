# SPDX-License-Identifier: Apache-2.0

"""fpgapool-manage bitstream build: compile, package and register a kernel."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import io
import pathlib
import re
import uuid
from collections.abc import Iterator
from typing import Any

from fpgapool import objects
from fpgapool.bitstreams import base as stores
from fpgapool.bitstreams import contents
from fpgapool.bitstreams import intake
from fpgapool.bitstreams import library
from fpgapool.bitstreams import signatures
from fpgapool.cmd.managing import commands
from fpgapool.common import arguments
from fpgapool.common import exception
from fpgapool.db import api as db_api
from fpgapool.drivers import base as drivers
from fpgapool.drivers.opencl import kernels
from fpgapool.drivers.opencl.compiling import compiler
from fpgapool.drivers.opencl.contents import dangers
from fpgapool.drivers.opencl.contents import manifest as manifests
from fpgapool.drivers.opencl.contents import package
from fpgapool.rpcapi import conductor as conductor_rpcapi
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions
from fpgapool.vocabulary import formats

option = arguments.option

#: Compiling large programs takes a long time.
TIMEOUT_S = 600.0

_XCLBIN = b"xclbin2\0"
# What the driver calls the file that it compiles, before a line's number.
_SOURCE = re.compile(r"\bsource(?=:\d)")

#: Which dangers a source may contain.
ALLOWED = arguments.Group(
    "dangers that a source may contain",
    *(
        arguments.flag(
            f"allow-{risk}",
            f"permit {meaning}",
            dest="allowed",
            action="append_const",
            const=risk,
            default=[],
        )
        for risk, meaning in dangers.RISKS.items()
    ),
)

PLATFORM = option(
    "platform",
    "PATTERN",
    "compile for a device whose platform name matches PATTERN, which is"
    " written as in boards files",
    default="*",
)
DEVICE = option(
    "device",
    "PATTERN",
    "compile for the first device whose name matches",
    default="*",
)

ARGUMENTS = (
    arguments.OneOf(
        arguments.Argument(
            "--kernel",
            choices=kernels.names(),
            help="kernel that is included with fpgapool",
        ),
        arguments.Argument(
            "file",
            nargs="?",
            type=pathlib.Path,
            metavar="FILE",
            help="OpenCL C source, or an xclbin, which needs no compilation",
        ),
        required=True,
    ),
    option(
        "manifest",
        "FILE",
        "the manifest of FILE; the default is FILE with the extension .json",
        type=pathlib.Path,
    ),
    PLATFORM,
    DEVICE,
    arguments.flag(
        "source",
        "package the source instead of a binary, so that each host compiles"
        " it; it is compiled here first as a check",
    ),
    option(
        "out",
        "FILE",
        "write the package to this file instead of registering it",
        type=pathlib.Path,
    ),
    ALLOWED,
    arguments.Group(
        "registration",
        option(
            "key",
            "FILE",
            "the private key that signs the package",
            type=pathlib.Path,
        ),
        option("project", "PROJECT_ID", "the owner; required without --out"),
        option(
            "shape",
            "SHAPE",
            "slot shape that the bitstream fits (repeat the option for"
            " several shapes)",
            dest="shapes",
            action="append",
            default=[],
        ),
        # As the openstack command calls it: --version is that of a command.
        option(
            "bitstream-version",
            "VERSION",
            "version (default: 1.0); the pool uses the newest version",
            type=arguments.matching("[A-Za-z0-9!+._-]{1,64}", "a version"),
            default="1.0",
        ),
        option(
            "peak-bytes-per-s",
            "RATE",
            "maximum input rate of one slot, unless the manifest specifies it",
            type=float,
        ),
        arguments.flag("public", "make it available to all projects"),
        arguments.flag("approve", "also approve it"),
    ),
)


def build(args: argparse.Namespace) -> tuple[package.Package, bytes]:
    """Make the package.

    :returns: the parsed package, and the contents of its file.
    :raises ConfigurationError: if a file cannot be read.
    :raises BitstreamRefused: with the error code of the compiler, the
        manifest, the package, or a danger in the source.
    """
    if args.kernel:
        manifest, payload = kernels.read(args.kernel)
    else:
        payload = _read(args.file)
        manifest = _read(args.manifest or args.file.with_suffix(".json"))
    kind = formats.OPENCL_SOURCE
    with _refusals(args.file):
        # Check the manifest before compiling.
        manifests.parse(manifest)
        if payload.startswith(_XCLBIN):
            kind = formats.XCLBIN
        else:
            dangers.check(payload, args.allowed)
            binary = compiler.compile_source(
                payload,
                (),
                args.platform,
                args.device,
                timeout_s=TIMEOUT_S,
                manifest=manifest,
            )
            if not args.source:
                kind, payload = formats.OPENCL_BINARY, binary
        made = package.pack(kind, manifest, payload)
    return package.unpack(made), made


def sign(args: argparse.Namespace) -> str:
    """Return the signature of a file in base64.

    Of a package with native code, the source is checked first. A binary cannot
    be checked.

    :raises ConfigurationError: if a file cannot be read.
    :raises BitstreamRefused: if the package is damaged, its source contains a
        danger, or it is a binary; unless that is allowed.
    """
    with commands.usable_files():
        contents, checksum = _read_once(args.file)
    if contents:
        with _refusals():
            found = package.unpack(contents)
            if found.kind == formats.OPENCL_SOURCE:
                dangers.check(found.payload, args.allowed)
        if found.kind == formats.OPENCL_BINARY and not args.allow_binary:
            code = codes.SOURCE_REFUSED
            raise exception.BitstreamRefused(
                f"{code}: {args.file} is a binary, whose source this command"
                " cannot check: if you have built it from a source that you"
                " trust, use --allow-binary",
                code=code,
            )
    return signatures.sign(_read(args.key), checksum)


def _read_once(path: pathlib.Path) -> tuple[bytes, str]:
    """Return the contents of a package, and the checksum of any file.

    Of other files the contents are empty: they may be large. What is signed is
    what was checked, even if the file changes meanwhile.
    """
    kept, digest = bytearray(), hashlib.sha256()
    with open(path, "rb") as file:
        piece = file.read(stores.CHUNK_BYTES)
        is_package = piece.startswith(package.MAGIC)
        while piece:
            digest.update(piece)
            # A longer one is refused for its length.
            if is_package and len(kept) <= package.MAX_SIZE_BYTES:
                kept += piece
            piece = file.read(stores.CHUNK_BYTES)
    return bytes(kept), digest.hexdigest()


@contextlib.contextmanager
def _refusals(source: pathlib.Path | None = None) -> Iterator[None]:
    """Translate errors.

    :param source: file whose name the compiler's messages get.
    """
    try:
        yield
    except (drivers.DriverError, exceptions.CodedError) as error:
        text = error.message
        if source is not None:
            text = _SOURCE.sub(lambda _: source.name, text)
        raise exception.BitstreamRefused(
            f"{error.code}: {text}", code=error.code
        ) from error


def _read(path: pathlib.Path) -> bytes:
    with commands.usable_files():
        return path.read_bytes()


@dataclasses.dataclass(frozen=True)
class Registry:
    """The library in which bitstreams are registered."""

    conductor: conductor_rpcapi.ConductorAPI
    database: db_api.Database
    store: stores.Store
    max_size_bytes: int

    def register(
        self,
        made: bytes,
        found: package.Package,
        args: argparse.Namespace,
        user: str,
    ) -> str:
        """Register a package, as the API registers a user's upload.

        :raises ConfigurationError: if an argument is missing or wrong.
        :raises BitstreamRefused: if the library rejects it and removes it
            again.
        """
        if not args.project:
            raise exception.ConfigurationError(
                reason="--project is required to register a bitstream"
            )
        checksum = hashlib.sha256(made).hexdigest()
        wanted = objects.CreateBitstream(
            bitstream_id=str(uuid.uuid4()),
            project_id=args.project,
            user_id=user,
            name=found.manifest.name,
            accelerator=found.manifest.name,
            description=found.manifest.description,
            version=args.bitstream_version,
            format=found.kind,
            public=args.public,
            shapes=tuple(dict.fromkeys(args.shapes)),
            profile=_profile(args),
            checksum_sha256=checksum,
            signature=_signature(args, found.kind, checksum),
        )
        self.conductor.change_bitstream(wanted)
        with self._removed_on_error(wanted.bitstream_id):
            self._upload(wanted.bitstream_id, made)
        if args.approve:
            self.conductor.change_bitstream(
                objects.DecideBitstream(
                    bitstream_id=wanted.bitstream_id,
                    approve=True,
                    user_id=user,
                    reason="",
                )
            )
        return wanted.bitstream_id

    def _upload(self, bitstream_id: str, made: bytes) -> None:
        record = self.database.get_bitstream(bitstream_id)
        if record is None:
            raise exception.BitstreamRefused(
                "the bitstream was deleted before the upload"
            )
        read = contents.read(record, [made], len(made))
        incoming = intake.Intake(
            io.BytesIO(made), len(made), self.max_size_bytes
        )
        incoming.check_length()
        location = self.store.write(record, incoming)
        try:
            self.conductor.change_bitstream(
                objects.UploadBitstream(
                    bitstream_id=bitstream_id,
                    checksum_sha256=incoming.checksum_sha256,
                    size_bytes=incoming.size_bytes,
                    location=location,
                    shapes=read.shapes,
                    profile=read.profile,
                )
            )
        except exception.BitstreamRefused:
            self.store.delete(location)
            raise

    @contextlib.contextmanager
    def _removed_on_error(self, bitstream_id: str) -> Iterator[None]:
        try:
            yield
        except exception.FpgapoolException:
            with contextlib.suppress(exception.FpgapoolException):
                self.conductor.change_bitstream(
                    objects.DeleteBitstream(bitstream_id=bitstream_id)
                )
            raise


def _profile(args: argparse.Namespace) -> dict[str, Any]:
    if args.peak_bytes_per_s is None:
        return {}
    profile = {"peak_bytes_per_s": args.peak_bytes_per_s}
    try:
        library.check_profile(profile)
    except ValueError as error:
        raise exception.ConfigurationError(reason=str(error)) from error
    return profile


def _signature(args: argparse.Namespace, kind: str, checksum: str) -> str:
    if args.key is None:
        if kind in formats.NATIVE_CODE:
            raise exception.ConfigurationError(
                reason=f"a bitstream of kind {kind} must be signed: specify"
                " --key, or use --out and sign it elsewhere"
            )
        return ""
    return signatures.sign(_read(args.key), checksum)
