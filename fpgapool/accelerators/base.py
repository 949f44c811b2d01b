# SPDX-License-Identifier: Apache-2.0

"""Accelerators: their profiles and software cores.

Workers and clients import this module when they start. To keep that fast, it
imports no third-party packages until a profile is read.
"""

from __future__ import annotations

import abc
import collections.abc
import contextlib
import dataclasses
import functools
import os
import pathlib
import re
import typing

from fpgapool.vocabulary import arrays
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import exceptions
from fpgapool.vocabulary import names
from fpgapool.vocabulary import platforms
from fpgapool.vocabulary import shapes

if typing.TYPE_CHECKING:
    import importlib.metadata

CORE_NAMESPACE = "fpgapool.accelerators"
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
#: Environment variable that overrides the operator's profile directory.
DIRECTORY_VARIABLE = "FPGAPOOL_ACCELERATORS_DIR"
DEFAULT_DIRECTORY = "/etc/fpgapool/accelerators"


_PROFILE_DIRECTORY = pathlib.Path(__file__).parent / "profiles"
_MAX_CHUNK_MULTIPLE_BYTES = 1 << 20
_CLASS_PATTERN = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


class AcceleratorError(exceptions.CodedError):
    """An accelerator cannot be used."""


class InvalidParams(AcceleratorError, ValueError):
    """The accelerator does not accept a session's parameters.

    The message names the parameter and never its value, which may be a key.
    """

    def __init__(self, message: str) -> None:
        super().__init__(codes.INVALID_PARAMS, message)


class InvalidInput(AcceleratorError, ValueError):
    """The accelerator does not accept a session's data.

    The message goes to the client and to logs, so it never quotes the data.
    """

    def __init__(self, message: str) -> None:
        super().__init__(codes.INVALID_INPUT, message)


class InvalidArgument(InvalidInput):
    """The accelerator does not accept an argument, or lacks one.

    The message names the argument and never quotes its data.
    """

    def __init__(self, message: str) -> None:
        AcceleratorError.__init__(self, codes.INVALID_ARGUMENT, message)


class KnownAnswer(typing.NamedTuple):
    """An input and the output that it must produce with these parameters.

    :ivar arguments: the arguments' data; the first is argument 1.
    """

    params: collections.abc.Mapping[str, object]
    data: bytes
    output: bytes
    arguments: tuple[bytes, ...] = ()


class Core(abc.ABC):
    """One session's computation. Only one thread may use it at once.

    :raises InvalidParams: if the accelerator does not accept the parameters.
    """

    #: For self-tests of slots; without any, a programmed slot passes.
    known_answers: typing.ClassVar[tuple[KnownAnswer, ...]] = ()

    #: Typical parameters, for measuring rates; None: those of the first known
    #: answer. That answer's arguments must be valid with both.
    usual_params: typing.ClassVar[
        collections.abc.Mapping[str, object] | None
    ] = None

    #: NumPy type of output numbers that other implementations may round
    #: differently, and the largest allowed error relative to the largest
    #: number; None: the output must match byte for byte.
    rounding: typing.ClassVar[tuple[str, float] | None] = None

    @abc.abstractmethod
    def __init__(self, params: collections.abc.Mapping[str, object]) -> None:
        pass

    @property
    def chunk_multiple_bytes(self) -> int | None:
        """The length of every piece but the last is a multiple of this.

        Override it if the value depends on the parameters; it must not change
        during a session. None: the profile's value applies.
        """
        return None

    @property
    def in_place(self) -> bool:
        """Whether the output may overwrite the input.

        Such a core returns exactly as many bytes as it receives, and none from
        :meth:`finish`. The same view may be passed as input and output, which
        saves memory traffic. The value must not change during a session.
        """
        return False

    @property
    def reusable(self) -> bool:
        """Whether the core accepts another input after :meth:`finish`.

        In a group, all tasks with the same parameters from a client that has
        locked a slot share one such core, which may remember earlier tasks.
        If the accelerator is stateless, tasks without parameters also share
        one. Each other task has its own core.
        """
        return False

    def set_argument(self, number: int, data: memoryview) -> None:
        """Set data that is the same for all pieces, such as a model.

        It is called before the first piece for each argument that the client
        sends, in any order; a second call with the same number replaces the
        data. After a move to another slot, the arguments are set again before
        :meth:`restore`, as snapshots do not include them. They are not part of
        the input or its checksum.

        :param number: number of the argument, from 1; each accelerator defines
            what its arguments mean.
        :param data: valid only during the call.
        :raises InvalidArgument: if there is no such argument, or its size or
            contents are wrong; the session ends.
        """
        raise InvalidArgument(f"the accelerator has no argument {number}")

    @abc.abstractmethod
    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        """Process the next piece of the input.

        It may take as long as it needs. Only a stateless accelerator's calls
        can be repeated: their output depends only on the piece and its offset.

        :param chunk_out: writable and at least
            ``max_output_bytes(len(chunk_in))`` long; ``chunk_in`` itself in
            some calls of a core that works :attr:`in_place`, and otherwise not
            overlapping it.
        :param offset_bytes: position of the piece in the session's input.
        :returns: number of bytes written to the start of ``chunk_out``.
        :raises InvalidInput: if the piece cannot be processed; the session
            ends. It is an :class:`InvalidArgument` if an argument is missing.
        """

    @property
    def max_started(self) -> int:
        """How many started pieces may be uncollected; see :meth:`start`."""
        return 1

    def start(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> collections.abc.Callable[[], int]:
        """Start processing the next piece of the input.

        Arguments and errors are those of :meth:`process`. Both views must stay
        valid until the piece is collected, or until collecting it fails after
        :meth:`cancel`.

        :returns: function that collects the piece: it waits for the output and
            returns or raises what :meth:`process` would. Pieces are collected
            once each, in the order in which they were started.
        """
        return functools.partial(
            self.process, chunk_in, chunk_out, offset_bytes
        )

    def finish(self, chunk_out: memoryview) -> int:
        """Write the output that follows the last piece of the input.

        :param chunk_out: writable, at least ``max_output_bytes(0)`` long.
        :returns: number of bytes written to the start of ``chunk_out``.
        :raises InvalidInput: if the input must not end here; the session
            ends.
        """
        return 0

    def max_output_bytes(self, input_bytes: int) -> int:
        """Return how much room a call needs for its output.

        :param input_bytes: length of the piece for :meth:`process`, 0 for
            :meth:`finish`.
        :returns: upper bound on the number of bytes that the call writes.
        """
        return input_bytes

    @property
    def has_snapshots(self) -> bool:
        """Whether :meth:`snapshot` and :meth:`restore` are implemented."""
        return False

    def snapshot(self) -> bytes:
        """Return the state on which the next piece depends, between pieces.

        :returns: at most ``frames.MAX_CHECKPOINT_BYTES``. The session's client
            stores it, and could tamper with it.
        """
        raise NotImplementedError

    def restore(self, snapshot: bytes, offset_bytes: int) -> None:
        """Continue where another core with the same parameters stopped.

        :param snapshot: the other core's snapshot, from an untrusted client.
        :param offset_bytes: position of the next piece in the session's input;
            greater than 0.
        :raises InvalidInput: if it is not a valid snapshot; the session ends.
        """
        raise NotImplementedError

    def cancel(self) -> None:
        """Make a running call return early; may be called from any thread.

        The core is not used afterwards. Override this if calls may take long.
        """
        return


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """The pool's description of an accelerator.

    :ivar name: the name by which users request the accelerator.
    :ivar peak_bytes_per_s: highest input rate of one slot.
    :ivar return_ratio: approximate bytes of output per byte of input.
    :ivar stateless: whether a session can continue in another slot.
    :ivar shapes: slot shapes that the accelerator fits; empty means any.
    :ivar params_schema: JSON schema of the session's parameters.
    :ivar core: the software core: its name in the entry point group
        ``fpgapool.accelerators``, or ``module:Class``.
    :ivar chunk_multiple_bytes: the length of every piece of input but the
        last must be a multiple of this, unless the core sets its own value.
    :ivar checkpoint: whether the core has snapshots, so that stateful sessions
        can continue in another slot when the pool reclaims theirs.
    :ivar platforms: rates and powers for slot shapes in which they differ; see
        :mod:`fpgapool.vocabulary.platforms`.
    """

    name: str
    description: str
    peak_bytes_per_s: float
    return_ratio: float
    stateless: bool
    shapes: tuple[str, ...]
    params_schema: dict[str, typing.Any]
    core: str
    chunk_multiple_bytes: int
    checkpoint: bool = False
    platforms: platforms.Document = dataclasses.field(default_factory=dict)

    def peak_in(self, shape: str) -> float:
        return platforms.peaks(self.platforms).get(
            shape, self.peak_bytes_per_s
        )


def _params_schema(value: object, where: str) -> dict[str, typing.Any]:
    schema = shapes.mapping_of(shapes.anything)(value, where)
    try:
        if arrays.KEYWORD in schema:
            arrays.Form(schema)
    except ValueError as error:
        raise shapes.Invalid(where, str(error)) from None
    return schema


_PROFILE = shapes.Members(
    {
        "name": shapes.matching(NAME_PATTERN, "a name of up to 64 characters"),
        "description": shapes.text(),
        "peak_bytes_per_s": shapes.number(above=0, below=1e15),
        "return_ratio": shapes.number(0, 1000),
        "stateless": shapes.flag,
        "shapes": shapes.list_of(shapes.text()),
        "params_schema": _params_schema,
        "core": shapes.matching(
            f"{NAME_PATTERN.pattern}|{_CLASS_PATTERN.pattern}",
            "a name or module:Class",
        ),
        "chunk_multiple_bytes": shapes.integer(1, _MAX_CHUNK_MULTIPLE_BYTES),
    },
    {
        "checkpoint": shapes.flag,
        "platforms": platforms.SHAPE,
    },
    nulls=("checkpoint", "platforms"),
)


def profile_from_document(document: object, source: str) -> Profile:
    """Check a decoded profile.

    :raises AcceleratorError: ``INVALID_PROFILE``, naming the source, the
        member and the reason.
    """

    try:
        found = _PROFILE(document, "")
    except shapes.Invalid as error:
        raise AcceleratorError(
            codes.INVALID_PROFILE, f"{source}: {error}"
        ) from None
    return Profile(**{**found, "shapes": tuple(found["shapes"])})


def read_profile(path: pathlib.Path) -> Profile:
    """Read a profile from a YAML file.

    :raises AcceleratorError: ``INVALID_PROFILE`` if it cannot be read.
    """
    import yaml

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
        raise AcceleratorError(
            codes.INVALID_PROFILE, f"{path}: {exc}"
        ) from exc
    return profile_from_document(document, str(path))


@functools.lru_cache(maxsize=256)
def _read_version(
    path: pathlib.Path, version: tuple[int, ...] | None
) -> Profile:
    # Cached because every session reads a profile, and profiles rarely change.
    return read_profile(path)


def _version_of(path: pathlib.Path) -> tuple[int, ...] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def load_profile(name: str) -> Profile:
    """Read the profile of one of this host's accelerators.

    :raises AcceleratorError: ``UNKNOWN_ACCELERATOR``, listing the known names,
        or ``INVALID_PROFILE``.
    """
    path = _profile_path(name)
    if path is None:
        raise AcceleratorError(
            codes.UNKNOWN_ACCELERATOR,
            names.unknown_accelerator(name, profile_names()),
        )
    profile = _read_version(path, _version_of(path))
    if profile.name != name:
        raise AcceleratorError(
            codes.INVALID_PROFILE,
            f"{path}: name: must match the file name, {name!r}",
        )
    return profile


def load_profiles() -> dict[str, Profile]:
    """Read the profiles of all accelerators of this host.

    :raises AcceleratorError: ``INVALID_PROFILE``.
    """
    return {name: load_profile(name) for name in profile_names()}


def profile_names() -> tuple[str, ...]:
    """List the accelerators of this host."""
    found = {
        path.stem
        for directory in profile_directories()
        for path in pathlib.Path(directory).glob("*.yaml")
    }
    return tuple(sorted(found))


def _profile_path(name: str) -> pathlib.Path | None:
    """Find a profile without listing all, which would delay every session."""
    # The name may come from a client and must not leave the directory.
    if not name or "/" in name:
        return None
    for directory in profile_directories():
        path = os.path.join(directory, f"{name}.yaml")
        if os.path.lexists(path):
            return pathlib.Path(path)
    return None


def profile_directories() -> tuple[str, ...]:
    """Return the operator's directory, which takes precedence, and ours."""
    own = os.environ.get(DIRECTORY_VARIABLE) or DEFAULT_DIRECTORY
    return own, str(_PROFILE_DIRECTORY)


@functools.cache
def load_core(name: str) -> type[Core]:
    """Find the class of a software core.

    The class is imported, so the name decides which code runs. It must come
    from a trusted file on this host.

    :param name: its name in the entry point group ``fpgapool.accelerators``,
        or ``module:Class``.
    :raises AcceleratorError: ``UNKNOWN_ACCELERATOR``, listing the known names,
        or ``CORE_UNAVAILABLE`` if it cannot be imported.
    """
    # Imported here, because this import is slow.
    import importlib.metadata

    if name not in (found := dict(_installed_cores())):
        # It may have been installed since.
        _installed_cores.cache_clear()
        found = dict(_installed_cores())
    if _CLASS_PATTERN.fullmatch(name):
        found[name] = importlib.metadata.EntryPoint(name, name, CORE_NAMESPACE)
    if name not in found:
        raise AcceleratorError(
            codes.UNKNOWN_ACCELERATOR,
            f"unknown software core {name!r}; known cores: "
            f"{', '.join(sorted(found))}; or use module:Class",
        )
    try:
        core = found[name].load()
    except (ImportError, AttributeError) as exc:
        raise AcceleratorError(
            codes.CORE_UNAVAILABLE,
            f"cannot load software core {name!r}: {exc}",
        ) from exc
    if not (isinstance(core, type) and issubclass(core, Core)):
        raise AcceleratorError(
            codes.CORE_UNAVAILABLE,
            f"software core {name!r} is not a subclass of {Core.__qualname__}",
        )
    return core


@functools.cache
def _installed_cores() -> dict[str, importlib.metadata.EntryPoint]:
    """Scan the installed packages, which is slow, for software cores."""
    import importlib.metadata

    group = importlib.metadata.entry_points(group=CORE_NAMESPACE)
    return {entry_point.name: entry_point for entry_point in group}


def warm_up() -> None:
    """Read beforehand what it takes to find profiles and software cores.

    Cores are not imported: their libraries may start threads.
    """
    _installed_cores()
    for name in profile_names():
        with contextlib.suppress(AcceleratorError):
            load_profile(name)


def set_arguments(
    core: Core, arguments: collections.abc.Sequence[bytes]
) -> None:
    """Set the arguments of a core; the first is argument 1."""
    for number, argument in enumerate(arguments, start=1):
        core.set_argument(number, memoryview(argument))


def require_whole(length_bytes: int, unit_bytes: int, unit: str) -> None:
    """Reject a piece of input that ends within a unit.

    Cores use this to reject input of the wrong size, because only the last
    piece need not be a multiple of ``chunk_multiple_bytes``.

    :raises InvalidInput: if the piece is not a multiple of the unit.
    """
    rest_bytes = length_bytes % unit_bytes
    if rest_bytes:
        raise InvalidInput(
            f"the input ends {rest_bytes} bytes into a {unit} "
            f"of {unit_bytes} bytes"
        )


def refuse_unknown_params(
    params: collections.abc.Mapping[str, object],
    known: collections.abc.Collection[str],
) -> None:
    """Reject parameters that an accelerator does not have.

    :raises InvalidParams: if there is an unknown parameter.
    """
    if not isinstance(params, collections.abc.Mapping):
        raise InvalidParams("the parameters must be a mapping")
    unknown = sorted(str(name) for name in params if name not in known)
    if unknown:
        raise InvalidParams(
            f"unknown parameter {unknown[0][:64]!r}; "
            f"known parameters: {', '.join(sorted(known)) or 'none'}"
        )
