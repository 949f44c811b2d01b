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

# Arguments, other than the version, that become attributes of a bitstream.
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
        "public",
        "public",
        "make it available to all projects (admin only)",
        "visibility",
    ),
    arguments.constant(
        "private",
        "private",
        "make it available only to its own project",
        "visibility",
    ),
)
_FILE = base.option("file", f"bitstream file; {_STDIN} means standard input")


@contextlib.contextmanager
def _naming(name: object) -> Iterator[None]:
    """Add a file's name to errors about the file, but not to API errors.

    :raises CommandError: instead of an OSError.
    """
    try:
        yield
    except sdk_exceptions.SDKException:
        # Some API errors are also OSErrors.
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
    """Return a signature, from the argument or from the file it names.

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
    """Return a JSON object, from the argument or from the file it names.

    :raises argparse.ArgumentTypeError: if it is not an object.
    """
    try:
        if not text.lstrip().startswith("{"):
            text = pathlib.Path(text).read_text(encoding="utf-8")
        found = json.loads(text)
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    except RecursionError:
        raise argparse.ArgumentTypeError("JSON nested too deeply") from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError("not a JSON object")
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
            "name of the bitstream; default is the accelerator's name",
            nargs="?",
            type=str,
        ),
        base.option(
            "accelerator", "the accelerator that it implements", required=True
        ),
        base.option(
            "shape",
            "slot shape that the bitstream fits (repeat the option for"
            " several shapes)",
            dest="shapes",
            action="append",
        ),
        _FILE,
        base.option(
            "signature",
            "signature of the file by a trusted key, in base64, or the name"
            " of a file that contains it",
            type=_signature,
        ),
        # The openstack command itself has an option --version.
        base.option(
            "bitstream-version",
            "version (default: 1.0); the pool uses the newest version;"
            " --version alone is answered by the openstack command itself",
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
                "format of the file; default is binary, that is, for one "
                "kind of board",
                dest="format",
                choices=formats.FORMATS,
            ),
        ),
        base.option(
            "profile",
            "profile of a new accelerator, as JSON or the name of a file that"
            " contains it; peak_bytes_per_s is required",
            type=_json_object,
        ),
        base.option("description", "human-readable description"),
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
                f"{messages.of_error(error)}; the bitstream was created"
                " without its file: to upload the file again, run 'openstack"
                f" fpga bitstream set --file FILE {made.id}'; to delete the"
                f" bitstream, run 'openstack fpga bitstream delete {made.id}'"
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
        base.option("name", "new name of the bitstream"),
        base.option("description", "human-readable description"),
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
        base.flag("force", "approve it even if it fits no slot of the pool"),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Make the changes one by one, with the approval last.

        Say after each what is different now: if a later one fails, the earlier
        ones have been made.
        """
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
            self._say(bitstream, f"changed: {', '.join(changes)}")
        if parsed_args.file is not None:
            with _opened(parsed_args.file) as file:
                self.client.upload_bitstream(bitstream, file)
            self._say(bitstream, f"has the file {parsed_args.file}")
        for project_id in project_ids:
            self.client.share_bitstream(bitstream, project_id)
            self._say(bitstream, f"shared with project {project_id}")
        if parsed_args.approve:
            before = self.client.get_bitstream(bitstream)
            again = "already " * (before.state == "approved")
            found = self.client.approve_bitstream(
                bitstream, force=parsed_args.force
            )
            self._say(
                bitstream,
                f"{again}approved: slots of shape {', '.join(found.shapes)}"
                f" may run it as {found.accelerator}, version {found.version}",
            )
        if parsed_args.reject is not None:
            self.client.reject_bitstream(bitstream, parsed_args.reject)
            self._say(bitstream, "rejected: no slot will be given it")

    def _say(self, bitstream: str, what: str) -> None:
        self.say(f"bitstream {bitstream} {what}")


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
    """Download a bitstream's file."""

    kind = "bitstream"
    arguments = (
        _BITSTREAM,
        base.option(
            "file",
            "file to write; an existing file is replaced only after a "
            "complete download with the right checksum",
            required=True,
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Write a temporary file, and rename it at the end."""
        # Replace the file itself, not a symbolic link to it.
        target = pathlib.Path(os.path.realpath(parsed_args.file))
        if target.exists() and not target.is_file():
            raise exceptions.CommandError(
                f"{parsed_args.file} is not a regular file"
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
