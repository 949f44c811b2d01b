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
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import IO
from typing import Any

from openstack import exceptions as sdk_exceptions
from openstack import resource
from osc_lib import exceptions
from osc_lib.cli import format_columns
from osc_lib.cli import parseractions

from fpgapool.common import interrupts
from fpgapool.osc.sdk import bitstream as sdk
from fpgapool.osc.v1 import base
from fpgapool.osc.v1 import messages
from fpgapool.osc.v1 import names
from fpgapool.osc.v1 import projects
from fpgapool.vocabulary import formats

_STATES = ("uploading", "unapproved", "approved", "rejected")
_VISIBILITIES = ("private", "shared", "public")
_STDIN = "-"
_CHUNK_BYTES = 1 << 20
_MAX_SIGNATURE_LENGTH = 2048

_FORMATTERS: base.Formatters = {
    "shapes": format_columns.ListColumn,
    "projects": format_columns.ListColumn,
    "profile": base.JsonColumn,
    "properties": format_columns.DictColumn,
}


def _shown(found: sdk.Bitstream) -> base.Table:
    return base.shown(found, _FORMATTERS, ["signature"])


def _add_bitstream(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "bitstream",
        metavar="<bitstream>",
        type=base.identifier,
        help="ID of the bitstream, or its name if that is unique",
    )


def _add_visibility(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--public",
        dest="visibility",
        action="store_const",
        const="public",
        help="for all projects (admin only)",
    )
    group.add_argument(
        "--private",
        dest="visibility",
        action="store_const",
        const="private",
        help="for its own project only",
    )


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--file",
        metavar="<file>",
        help=f"the file; {_STDIN} is the standard input",
    )


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
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError("it is not a JSON object")
    return found


def _project_ids(
    asked: base.Command, parsed_args: argparse.Namespace
) -> list[str]:
    """Return the IDs of all projects, before any is changed."""
    return [
        projects.find_id(asked.connection, project, parsed_args)
        for project in parsed_args.projects
    ]


class CreateBitstream(base.ShowCommand):
    """Create a bitstream, and upload its file."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "name",
            metavar="<name>",
            nargs="?",
            help="name of the bitstream; default is the accelerator's",
        )
        parser.add_argument(
            "--accelerator",
            metavar="<accelerator>",
            required=True,
            help="the accelerator that it implements",
        )
        parser.add_argument(
            "--shape",
            metavar="<shape>",
            dest="shapes",
            action="append",
            help="shape of slots that fit (repeat the option for several)",
        )
        _add_file(parser)
        parser.add_argument(
            "--signature",
            metavar="<signature>",
            type=_signature,
            help="signature of the file by a trusted key, in base64, or a file"
            " that holds it",
        )
        parser.add_argument(
            # The whole command has a --version.
            "--bitstream-version",
            metavar="<version>",
            help="version; the pool uses the newest; default is 1.0",
        )
        kind = parser.add_mutually_exclusive_group()
        kind.add_argument(
            "--declaration",
            action="store_const",
            dest="format",
            const=formats.DECLARATION,
            help="the file is a declaration for emulated boards",
        )
        kind.add_argument(
            "--file-format",
            dest="format",
            choices=formats.FORMATS,
            help="format of the file; default is binary, for one kind of"
            " board",
        )
        parser.add_argument(
            "--profile",
            metavar="<profile>",
            type=_json_object,
            help="profile of a new accelerator, as JSON or a file that holds"
            " it; needs peak_bytes_per_s",
        )
        parser.add_argument(
            "--description",
            metavar="<description>",
            help="for people",
        )
        parser.add_argument(
            "--property",
            metavar="<key=value>",
            dest="properties",
            action=parseractions.KeyValueAction,
            help="property such as vendor, board, shell_id or driver (repeat"
            " the option for several)",
        )
        _add_visibility(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Create it, and upload its file if one is given."""
        wanted = base.given(
            accelerator=parsed_args.accelerator,
            name=parsed_args.name,
            shapes=parsed_args.shapes,
            signature=parsed_args.signature,
            version=parsed_args.bitstream_version,
            format=parsed_args.format,
            profile=parsed_args.profile,
            description=parsed_args.description,
            properties=parsed_args.properties,
            visibility=parsed_args.visibility,
        )
        if parsed_args.file is None:
            return _shown(self.client.create_bitstream(**wanted))
        with _opened(parsed_args.file) as file:
            made = self.client.create_bitstream(
                **wanted, checksum_sha256=_checksum(file)
            )
            return _shown(self._upload(made, file))

    def _upload(self, made: sdk.Bitstream, file: IO[bytes]) -> sdk.Bitstream:
        try:
            return self.client.upload_bitstream(made, file)
        except sdk_exceptions.SDKException as error:
            raise exceptions.CommandError(
                f"{messages.of_error(error)}; the bitstream exists without its"
                f" file: 'openstack fpga bitstream set --file FILE {made.id}'"
                f" tries again, '... delete {made.id}' deletes it"
            ) from error


class ListBitstreams(base.ListCommand):
    """List the bitstreams that your project may see."""

    columns = {
        "id": "ID",
        "name": "Name",
        "key": "Accelerator",
        "version": "Version",
        "state": "State",
        "visibility": "Visibility",
    }
    long_columns = {
        "shapes": "Shapes",
        "is_compatible": "Compatible",
        "format": "Format",
        "size_bytes": "Size Bytes",
        "checksum_sha256": "SHA-256",
        "signed_by": "Signed By",
        "project_id": "Project ID",
        "created_at": "Created At",
    }
    formatters = _FORMATTERS
    sort_keys = ("created_at", "name", "accelerator", "state", "updated_at")

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--accelerator",
            metavar="<accelerator>",
            help="list only bitstreams of this accelerator (plain name)",
        )
        parser.add_argument(
            "--name",
            metavar="<name>",
            help="list only bitstreams with this name",
        )
        parser.add_argument(
            "--state",
            choices=_STATES,
            help="list only bitstreams in this state",
        )
        parser.add_argument(
            "--visibility",
            choices=_VISIBILITIES,
            help="list only bitstreams with this visibility",
        )
        parser.add_argument(
            "--shape",
            metavar="<shape>",
            help="list only bitstreams that fit slots of this shape",
        )
        parser.add_argument(
            "--all-projects",
            action="store_true",
            default=None,
            help="list bitstreams of all projects (admin only)",
        )
        parser.add_argument(
            "--project",
            metavar="<project>",
            help="list only bitstreams of this project (name or ID)",
        )
        projects.add_options(parser)
        return parser

    def members(
        self, parsed_args: argparse.Namespace, query: Mapping[str, Any]
    ) -> Iterable[resource.Resource]:
        """Request the bitstreams."""
        project_id = parsed_args.project and projects.find_id(
            self.connection, parsed_args.project, parsed_args
        )
        filters = base.given(
            project_id=project_id,
            **{
                name: getattr(parsed_args, name)
                for name in (
                    "accelerator",
                    "name",
                    "state",
                    "visibility",
                    "shape",
                    "all_projects",
                )
            },
        )
        return self.client.bitstreams(**filters, **query)


class ShowBitstream(base.ShowCommand):
    """Show a bitstream."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        _add_bitstream(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Show it."""
        found = names.bitstream(self.client, parsed_args.bitstream)
        return _shown(self.client.get_bitstream(found))


class SetBitstream(base.Command):
    """Change, share, upload, approve or reject a bitstream."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        _add_bitstream(parser)
        parser.add_argument("--name", metavar="<name>", help="its new name")
        parser.add_argument(
            "--description", metavar="<description>", help="for people"
        )
        _add_visibility(parser)
        parser.add_argument(
            "--project",
            metavar="<project>",
            dest="projects",
            action="append",
            default=[],
            type=base.identifier,
            help="share it with this project (name or ID; repeat the option"
            " for several)",
        )
        projects.add_options(parser)
        _add_file(parser)
        group = parser.add_mutually_exclusive_group()
        group.add_argument(
            "--approve",
            action="store_true",
            help="approve it, so that slots may run it (admin only)",
        )
        group.add_argument(
            "--reject",
            metavar="<reason>",
            help="reject it, so that no slot runs it (admin only)",
        )
        parser.add_argument(
            "--force",
            action="store_true",
            help="approve it even if the pool has no slot that fits",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Make the changes one after the other, the approval last."""
        project_ids = _project_ids(self, parsed_args)
        bitstream = names.bitstream(self.client, parsed_args.bitstream)
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

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        _add_bitstream(parser)
        parser.add_argument(
            "--project",
            metavar="<project>",
            dest="projects",
            action="append",
            required=True,
            type=base.identifier,
            help="stop sharing it with this project (name or ID; repeat the"
            " option for several)",
        )
        projects.add_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Remove the projects."""
        project_ids = _project_ids(self, parsed_args)
        bitstream = names.bitstream(self.client, parsed_args.bitstream)
        for project_id in project_ids:
            self.client.unshare_bitstream(bitstream, project_id)


class DeleteBitstream(base.Command):
    """Delete bitstreams and their files."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "bitstreams",
            metavar="<bitstream>",
            nargs="+",
            type=base.identifier,
            help="ID of a bitstream, or its name if that is unique",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Delete them, also if one cannot be deleted."""

        def delete(bitstream: str, ignore_missing: bool) -> None:
            found = names.bitstream(self.client, bitstream)
            self.client.delete_bitstream(found, ignore_missing=ignore_missing)

        base.do_each(parsed_args.bitstreams, delete, "bitstream", "deleted")


class SaveBitstream(base.Command):
    """Write a bitstream's file to this machine."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        _add_bitstream(parser)
        parser.add_argument(
            "--file",
            metavar="<file>",
            required=True,
            help="path of the file; it is replaced when the download is"
            " complete and its checksum is right",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Write a temporary file, and rename it at the end."""
        # Not a symbolic link to it.
        target = pathlib.Path(os.path.realpath(parsed_args.file))
        if target.exists() and not target.is_file():
            raise exceptions.CommandError(
                f"{parsed_args.file}: is not a regular file"
            )
        found = names.bitstream(self.client, parsed_args.bitstream)
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
