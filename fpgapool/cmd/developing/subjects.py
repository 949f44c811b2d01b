# SPDX-License-Identifier: Apache-2.0

"""What is tried in a pool: a core or a kernel, with the files beside it."""

from __future__ import annotations

import abc
import argparse
import hashlib
import importlib
import os
import pathlib
import shutil
import sys
import typing
from collections.abc import Iterator
from collections.abc import Mapping

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from fpgapool.accelerators import base as accelerators
from fpgapool.allinone import program
from fpgapool.bitstreams import signatures
from fpgapool.cmd.developing import answers
from fpgapool.cmd.developing import library
from fpgapool.common import exception
from fpgapool.vocabulary import codes

#: A step of the preparation: its name, and what does it and tells details.
Step = tuple[str, typing.Callable[[], str]]

#: By the ending of a source: what it is, the ending of what must be beside it,
#: and what that is.
_KINDS = {
    ".cl": ("opencl", ".json", "manifest"),
    ".py": ("core", ".yaml", "profile"),
}
_VERSION = "1.0"
#: Only until it is measured: it decides nothing in a pool with one slot.
_ASSUMED_BYTES_PER_S = 1e9


class Subject(abc.ABC):
    """An accelerator to try.

    :ivar path: its source.
    :ivar name: of the accelerator in the pool.
    :ivar known: inputs with their outputs.
    :ivar reference: computes outputs; None: there is nothing to compare with.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.name = path.stem
        self.known: list[accelerators.KnownAnswer] = []
        self.reference: answers.Reference | None = None
        self.declared_bytes_per_s: float | None = None

    @property
    def vectors_path(self) -> pathlib.Path:
        return self.path.with_suffix(answers.VECTORS_SUFFIX)

    @abc.abstractmethod
    def preparations(self, directory: pathlib.Path) -> Iterator[Step]:
        """Yield what comes before the pool; each step uses those before.

        :param directory: for its files; empty.
        """

    @property
    @abc.abstractmethod
    def options(self) -> tuple[str, ...]:
        """Options of the pool's command."""

    def configuration(self, directory: pathlib.Path) -> str:
        """Return the pool's configuration file."""
        return ""

    def environment(self, directory: pathlib.Path) -> Mapping[str, str]:
        """Return the environment of the pool's process."""
        return os.environ

    def registrations(self, pool: program.Pool) -> Iterator[Step]:
        """Yield what brings it into the pool's library."""
        return iter(())


class Core(Subject):
    """A software core: a Python class, with its profile in a file beside."""

    options = ("--unlimited",)

    @property
    def profile_path(self) -> pathlib.Path:
        return self.path.with_suffix(".yaml")

    def preparations(self, directory: pathlib.Path) -> Iterator[Step]:
        yield "core", self._load
        yield "profile", lambda: self._install(directory)

    def _load(self) -> str:
        profile = accelerators.read_profile(self.profile_path)
        if profile.name != self.name:
            raise exception.ConfigurationError(
                reason=f"{self.profile_path}: the name {profile.name!r} must"
                f" be that of the file, {self.name!r}",
                code=codes.INVALID_PROFILE,
            )
        module, _, class_ = profile.core.partition(":")
        if module != self.name or not class_:
            raise exception.ConfigurationError(
                reason=f"{self.profile_path}: core must be"
                f" '{self.name}:CLASS', for a class of {self.path.name}",
                code=codes.INVALID_PROFILE,
            )
        self._check_place()
        sys.path.insert(0, str(self.path.parent))
        core = accelerators.load_core(profile.core)
        loaded = importlib.import_module(module).__file__
        if loaded is None or not os.path.samefile(loaded, self.path):
            raise exception.ConfigurationError(
                reason=f"Python has another module {module!r} ({loaded});"
                " choose another name"
            )
        self.known = [
            *core.known_answers,
            *answers.read_vectors(self.vectors_path),
        ]
        self.reference = answers.of_core(core)
        self.declared_bytes_per_s = profile.peak_bytes_per_s
        return f"{profile.core}; {profile.description}"

    def _check_place(self) -> None:
        """Refuse a directory that no worker may read."""
        home = pathlib.Path.home().resolve()
        if home.is_relative_to(self.path.parent):
            raise exception.ConfigurationError(
                reason=f"{self.path}: workers may not read the home"
                " directory; move the core to a directory of its own"
            )

    def _install(self, directory: pathlib.Path) -> str:
        shutil.copy(self.profile_path, directory)
        return str(self.profile_path)

    def environment(self, directory: pathlib.Path) -> Mapping[str, str]:
        found = {**os.environ, accelerators.DIRECTORY_VARIABLE: str(directory)}
        inherited = found.get("PYTHONPATH")
        found["PYTHONPATH"] = os.pathsep.join(
            filter(None, (str(self.path.parent), inherited))
        )
        return found


class Kernel(Subject):
    """An OpenCL program, with its manifest in a file beside it.

    :param args: as the command line has them.
    """

    options = ("--driver=opencl", "--api-port=0")

    def __init__(self, path: pathlib.Path, args: argparse.Namespace) -> None:
        super().__init__(path)
        self._args = args
        self._made = b""
        self._kind = ""
        self._checksum = ""
        self._signature = ""

    def preparations(self, directory: pathlib.Path) -> Iterator[Step]:
        yield "build", self._build
        yield "sign", lambda: self._sign(directory)

    def _build(self) -> str:
        # Imported late: cores need no OpenCL.
        from fpgapool.cmd.managing import building

        self.known = answers.read_vectors(self.vectors_path)
        self.reference = answers.read_reference(self.path.with_suffix(".py"))
        # The pool's host compiles the source for each of its devices.
        found, self._made = building.build(
            argparse.Namespace(
                **vars(self._args), kernel=None, manifest=None, source=True
            )
        )
        self._kind = found.kind
        self.name = found.manifest.name
        self.declared_bytes_per_s = found.manifest.peak_bytes_per_s
        self._checksum = hashlib.sha256(self._made).hexdigest()
        return f"{self._kind} of {self.name}, {len(self._made)} bytes"

    def _sign(self, directory: pathlib.Path) -> str:
        key = ed25519.Ed25519PrivateKey.generate()
        encoding = serialization.Encoding.PEM
        (directory / "local.pub").write_bytes(
            key.public_key().public_bytes(
                encoding, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        private = key.private_bytes(
            encoding,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        self._signature = signatures.sign(private, self._checksum)
        return "with a key of this run, which only its pool trusts"

    def configuration(self, directory: pathlib.Path) -> str:
        boards_file = directory / "boards.yaml"
        board = {
            "name": "board0",
            "platform": self._args.platform,
            "device": self._args.device,
            "slots": 1,
        }
        boards_file.write_text(yaml.safe_dump({"boards": [board]}))
        # In oslo.config, dollar signs refer to other options.
        place = str(directory).replace("$", "$$")
        return (
            "[bitstreams]\n"
            "signature_required = true\n"
            f"trusted_keys_dir = {place}\n"
            "[opencl]\n"
            f"boards_file = {place}/boards.yaml\n"
        )

    def registrations(self, pool: program.Pool) -> Iterator[Step]:
        assert pool.api_url is not None
        yield "register", lambda: self._register(str(pool.api_url))

    def _register(self, url: str) -> str:
        shapes = library.shapes(url)
        profile = {}
        if self.declared_bytes_per_s is None:
            profile["peak_bytes_per_s"] = _ASSUMED_BYTES_PER_S
        bitstream_id = library.bring(
            url,
            {
                "accelerator": self.name,
                "version": _VERSION,
                "format": self._kind,
                "shapes": shapes,
                "profile": profile,
                "checksum_sha256": self._checksum,
                "signature": self._signature,
            },
            self._made,
        )
        return (
            f"bitstream {bitstream_id}, uploaded and approved for slots of"
            f" shape {', '.join(shapes)}"
        )


def of_file(path: pathlib.Path, args: argparse.Namespace) -> Subject:
    """Return what a file holds.

    :raises ConfigurationError: if it is not there, or of no known kind.
    """
    path = path.absolute()
    if path.suffix not in _KINDS:
        raise exception.ConfigurationError(
            reason=f"{path.name}: is neither an OpenCL program (.cl) nor a"
            " core (.py)",
            code=codes.INVALID_USAGE,
        )
    if not path.is_file():
        raise exception.ConfigurationError(
            reason=f"{path}: there is no such file; 'fpgapool-dev new' makes"
            " a first one",
            code=codes.FILE_ERROR,
        )
    kind, beside, what = _KINDS[path.suffix]
    if not path.with_suffix(beside).is_file():
        raise exception.ConfigurationError(
            reason=f"{path}: lacks {path.with_suffix(beside).name} beside it,"
            f" its {what}; 'fpgapool-dev new {kind} NAME' makes an example",
            code=codes.FILE_ERROR,
        )
    return Kernel(path, args) if path.suffix == ".cl" else Core(path)
