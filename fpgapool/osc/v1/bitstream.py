# SPDX-License-Identifier: Apache-2.0

"""Commands for bitstreams."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import IO
from typing import Any

from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions
from osc_lib.cli import format_columns
from osc_lib.cli import parseractions

from fpgapool.common import arguments
from fpgapool.common import interrupts
from fpgapool.osc.sdk import library as sdk
from fpgapool.osc.v1 import base
from fpgapool.osc.v1 import messages
from fpgapool.osc.v1 import projects
from fpgapool.vocabulary import formats
from fpgapool.vocabulary import library

# Of a new bitstream, besides its version.
_CREATED_WITH = (
    *("accelerator", "name", "shapes", "signature", "format", "profile"),
    *("description", "properties", "visibility"),
)
_STDIN = "-"
_CHUNK_BYTES = 1 << 20
_MAX_SIGNATURE_LENGTH = 2048

_BITSTREAM = base.positional(
    "bitstream", "ID of the bitstream, or its name if that is unique"
)
_VISIBILITY = arguments.OneOf(
    arguments.constant(
        "public", "public", "for all projects (admin only)", "visibility"
    ),
    arguments.constant(
        "private", "private", "for its own project only", "visibility"
    ),
)
_FILE = base.option("file", f"the file; {_STDIN} is the standard input")


@contextlib.contextmanager
def _naming(name: object) -> Iterator[None]:
    """Raise errors of a file, not those of the API, with its name.

    :raises CommandError: instead of them.
    """
    try:
        yield
    except sdk_exceptions.SDKException:
        # Some of them are an OSError, too.
        raise
    except OSError as error:
        text = f"{name}: {error.strerror or error}"
        raise exceptions.CommandError(text) from error


@contextlib.contextmanager
def _opened(name: str) -> Iterator[IO[bytes]]:
    """Open a file that can be read twice.

    :raises CommandError: if it cannot be read.
    """
    with _naming(name):
        if name != _STDIN:
            with open(name, "rb") as file:
                yield file
            return
        if sys.stdin is None:
            raise exceptions.CommandError("standard input is closed")
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
            copy.seek(0)
            yield copy


def _checksum(file: IO[bytes]) -> str:
    found = hashlib.sha256()
    while chunk := file.read(_CHUNK_BYTES):
        found.update(chunk)
    file.seek(0)
    return found.hexdigest()


def _signature(text: str) -> str:
    """Return a signature, or the contents of a file of that name.

    :raises argparse.ArgumentTypeError: if the file cannot be read.
    """
    if not os.path.isfile(text):
        return text
    try:
        with open(text, encoding="ascii") as file:
            return file.read(_MAX_SIGNATURE_LENGTH).strip()
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from error


def _json_object(text: str) -> dict[str, Any]:
    """Return the object in a JSON text, or in a file of that name.

    :raises argparse.ArgumentTypeError: if it is not an object.
    """
    try:
        if not text.lstrip().startswith("{"):
            text = pathlib.Path(text).read_text(encoding="utf-8")
        found = json.loads(text)
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    except RecursionError:
        raise argparse.ArgumentTypeError("it is nested too deeply") from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError("it is not a JSON object")
    return found


class ShowBitstream(base.ShowCommand):
    """Show a bitstream."""

    kind = "bitstream"
    described = library.BITSTREAM
    formatters = {"properties": format_columns.DictColumn}
    hidden = ("signature",)
    arguments: base.Arguments = (_BITSTREAM,)


class CreateBitstream(ShowBitstream):
    """Create a bitstream, and upload its file."""

    arguments = (
        base.positional(
            "name",
            "name of the bitstream; default is the accelerator's",
            nargs="?",
            type=str,
        ),
        base.option(
            "accelerator", "the accelerator that it implements", required=True
        ),
        base.option(
            "shape",
            "shape of slots that fit (repeat the option for several)",
            dest="shapes",
            action="append",
        ),
        _FILE,
        base.option(
            "signature",
            "signature of the file by a trusted key, in base64, or a file"
            " that holds it",
            type=_signature,
        ),
        # The whole command has a --version.
        base.option(
            "bitstream-version",
            "version; the pool uses the newest; default is 1.0",
            metavar="<version>",
        ),
        arguments.OneOf(
            arguments.constant(
                "declaration",
                formats.DECLARATION,
                "the file is a declaration for emulated boards",
                "format",
            ),
            base.option(
                "file-format",
                "format of the file; default is binary, for one kind of board",
                dest="format",
                choices=formats.FORMATS,
            ),
        ),
        base.option(
            "profile",
            "profile of a new accelerator, as JSON or a file that holds it;"
            " needs peak_bytes_per_s",
            type=_json_object,
        ),
        base.option("description", "for people"),
        base.option(
            "property",
            "property such as vendor, board, shell_id or driver (repeat the"
            " option for several)",
            metavar="<key=value>",
            dest="properties",
            action=parseractions.KeyValueAction,
        ),
        _VISIBILITY,
    )

    def act(self, parsed_args: argparse.Namespace) -> sdk.Bitstream:
        wanted = base.given(
            version=parsed_args.bitstream_version,
            **{name: getattr(parsed_args, name) for name in _CREATED_WITH},
        )
        if parsed_args.file is None:
            return self.client.create_bitstream(**wanted)
        with _opened(parsed_args.file) as file:
            made = self.client.create_bitstream(
                **wanted, checksum_sha256=_checksum(file)
            )
            return self._upload(made, file)

    def _upload(self, made: sdk.Bitstream, file: IO[bytes]) -> sdk.Bitstream:
        try:
            return self.client.upload_bitstream(made, file)
        except sdk_exceptions.SDKException as error:
            raise exceptions.CommandError(
                f"{messages.of_error(error)}; the bitstream exists without its"
                f" file: 'openstack fpga bitstream set --file FILE {made.id}'"
                f" retries, '... delete {made.id}' deletes it"
            ) from error


class ListBitstreams(base.ListCommand):
    """List the bitstreams that your project may see."""

    described = library.BITSTREAM
    method = "bitstreams"
    filters = (
        *("accelerator", "name", "state", "visibility", "shape"),
        "all_projects",
    )
    arguments = (
        base.option(
            "accelerator",
            "list only bitstreams of this accelerator (unqualified name)",
        ),
        base.option("name", "list only bitstreams with this name"),
        base.option(
            "state",
            "list only bitstreams in this state",
            choices=library.BITSTREAM_STATES,
        ),
        base.option(
            "visibility",
            "list only bitstreams with this visibility",
            choices=library.VISIBILITIES,
        ),
        base.option(
            "shape", "list only bitstreams that fit slots of this shape"
        ),
        base.ALL_PROJECTS,
        *projects.one("list only bitstreams of this project (name or ID)"),
    )

    def query(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        return super().query(parsed_args) | projects.query(self, parsed_args)


class SetBitstream(base.Command):
    """Change, share, upload, approve or reject a bitstream."""

    kind = "bitstream"
    arguments = (
        _BITSTREAM,
        base.option("name", "its new name"),
        base.option("description", "for people"),
        _VISIBILITY,
        *projects.several("share it with this project", default=[]),
        _FILE,
        arguments.OneOf(
            base.flag(
                "approve", "approve it, so that slots may run it (admin only)"
            ),
            base.option(
                "reject",
                "reject it, so that no slot runs it (admin only)",
                metavar="<reason>",
            ),
        ),
        base.flag(
            "force", "approve it even if the pool has no slot that fits"
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Make the changes one after the other, the approval last."""
        project_ids = projects.find_ids(
            self.connection, parsed_args.projects, parsed_args
        )
        bitstream = self.named(parsed_args)
        changes = base.given(
            name=parsed_args.name,
            description=parsed_args.description,
            visibility=parsed_args.visibility,
        )
        if changes:
            self.client.update_bitstream(bitstream, **changes)
        if parsed_args.file is not None:
            with _opened(parsed_args.file) as file:
                self.client.upload_bitstream(bitstream, file)
        for project_id in project_ids:
            self.client.share_bitstream(bitstream, project_id)
        if parsed_args.approve:
            self.client.approve_bitstream(bitstream, force=parsed_args.force)
        if parsed_args.reject is not None:
            self.client.reject_bitstream(bitstream, parsed_args.reject)


class UnsetBitstream(base.Command):
    """Stop sharing a bitstream with projects."""

    kind = "bitstream"
    arguments = (
        _BITSTREAM,
        *projects.several("stop sharing it with this project", required=True),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        project_ids = projects.find_ids(
            self.connection, parsed_args.projects, parsed_args
        )
        bitstream = self.named(parsed_args)
        for project_id in project_ids:
            self.client.unshare_bitstream(bitstream, project_id)


class DeleteBitstream(base.EachCommand):
    """Delete bitstreams and their files."""

    kind = "bitstream"
    done = "deleted"
    arguments = (
        base.positional(
            "bitstreams",
            "ID of a bitstream, or its name if that is unique",
            nargs="+",
        ),
    )


class SaveBitstream(base.Command):
    """Write a bitstream's file to this machine."""

    kind = "bitstream"
    arguments = (
        _BITSTREAM,
        base.option(
            "file",
            "path of the file; replaced only after a complete download with "
            "the right checksum",
            required=True,
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Write a temporary file, and rename it at the end."""
        # Not a symbolic link to it.
        target = pathlib.Path(os.path.realpath(parsed_args.file))
        if target.exists() and not target.is_file():
            raise exceptions.CommandError(
                f"{parsed_args.file}: is not a regular file"
            )
        found = self.named(parsed_args)
        with (
            _naming(target),
            interrupts.interruptible(),
            tempfile.NamedTemporaryFile(
                dir=target.parent, prefix=f".{target.name}.", delete=False
            ) as part,
        ):
            try:
                for chunk in self.client.download_bitstream(found):
                    part.write(chunk)
                part.flush()
                os.replace(part.name, target)
            except BaseException:
                os.unlink(part.name)
                raise
