#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""What an accelerator is: its profile and its software core.

Imports nothing but the standard library until a profile is read, because
worker processes and clients load it at their start.
"""

from __future__ import annotations

import abc
import collections.abc
import dataclasses
import functools
import pathlib
import re
import typing

CORE_NAMESPACE = "fpgapool.accelerators"
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

# Do not change the string values. Once set, they are set.
INVALID_PARAMS = "INVALID_PARAMS"
INVALID_PROFILE = "INVALID_PROFILE"
UNKNOWN_ACCELERATOR = "UNKNOWN_ACCELERATOR"

_PROFILE_DIRECTORY = pathlib.Path(__file__).parent / "profiles"
_MAX_CHUNK_MULTIPLE_BYTES = 1 << 20


class AcceleratorError(Exception):
    """Something about an accelerator cannot be used.

    :ivar code: stable machine-readable code.
    :ivar message: explanation for people; it may change.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class InvalidParams(AcceleratorError, ValueError):
    """The parameters of a session do not suit its accelerator.

    The message names the parameter and never its value, which may be a key.
    """

    def __init__(self, message: str) -> None:
        super().__init__(INVALID_PARAMS, message)


class Core(abc.ABC):
    """One session's computation. Used by one thread at a time.

    :param params: the session's parameters.
    :raises InvalidParams: if they do not suit the accelerator.
    """

    @abc.abstractmethod
    def __init__(self, params: collections.abc.Mapping[str, object]) -> None:
        pass

    @abc.abstractmethod
    def process(
        self, chunk_in: memoryview, chunk_out: memoryview, offset_bytes: int
    ) -> int:
        """Process the next piece of the input.

        May take as long as it needs. Not idempotent unless the accelerator
        is stateless, when only the offset says which piece it is.

        :param chunk_in: the piece; it is valid during the call only.
        :param chunk_out: writable, ``max_output_bytes(len(chunk_in))`` long
            at least; never overlaps ``chunk_in``.
        :param offset_bytes: position of the piece in the session's input.
        :returns: bytes written to the front of ``chunk_out``.
        """

    def finish(self, chunk_out: memoryview) -> int:
        """Return what is left after the last piece of the input.

        :param chunk_out: writable, ``max_output_bytes(0)`` long at least.
        :returns: bytes written to the front of ``chunk_out``.
        """
        return 0

    def max_output_bytes(self, input_bytes: int) -> int:
        """Say how much room a call needs.

        :param input_bytes: length of the piece for :meth:`process`, 0 for
            :meth:`finish`.
        :returns: upper bound of the bytes that the call writes.
        """
        return input_bytes

    def cancel(self) -> None:
        """Ask a running call to return early, from any thread.

        The core is not used again. A core whose calls are short need not
        react.
        """
        return


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """What the pool knows about an accelerator.

    :ivar name: how tenants ask for it.
    :ivar description: one line for people.
    :ivar peak_bytes_per_s: input rate of one slot at its best.
    :ivar return_ratio: bytes of output per byte of input, about.
    :ivar stateless: whether a session can go on in another slot.
    :ivar shapes: slot shapes that it fits; empty is any.
    :ivar params_schema: JSON schema of the session's parameters.
    :ivar core: name of the software core.
    :ivar chunk_multiple_bytes: every piece of input but the last must be a
        multiple of this.
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


_MEMBERS: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "description": str,
    "peak_bytes_per_s": (int, float),
    "return_ratio": (int, float),
    "stateless": bool,
    "shapes": list,
    "params_schema": dict,
    "core": str,
    "chunk_multiple_bytes": int,
}


def profile_from_document(document: object, source: str) -> Profile:
    """Check a decoded profile.

    :param document: what the YAML or JSON said.
    :param source: where it is from, for error messages.
    :returns: the profile.
    :raises AcceleratorError: ``INVALID_PROFILE`` with source, member and
        reason.
    """

    def invalid(member: str, reason: str) -> AcceleratorError:
        return AcceleratorError(
            INVALID_PROFILE, f"{source}: {member}: {reason}"
        )

    if not isinstance(document, dict):
        raise invalid("document", "must be a mapping")
    for member in document:
        if member not in _MEMBERS:
            raise invalid(str(member), "unknown member")
    for member, kind in _MEMBERS.items():
        if member not in document:
            raise invalid(member, "missing")
        value = document[member]
        if not isinstance(value, kind) or (
            isinstance(value, bool) and kind is not bool
        ):
            raise invalid(member, "is of the wrong type")
    for member in ("name", "core"):
        if not NAME_PATTERN.fullmatch(document[member]):
            raise invalid(member, "must be a name of up to 64 characters")
    if not 0 < document["peak_bytes_per_s"] < 1e15:
        raise invalid("peak_bytes_per_s", "must be above 0 and below 1e15")
    if not 0 <= document["return_ratio"] <= 1000:
        raise invalid("return_ratio", "must be between 0 and 1000")
    if not 1 <= document["chunk_multiple_bytes"] <= _MAX_CHUNK_MULTIPLE_BYTES:
        raise invalid("chunk_multiple_bytes", "must be between 1 and 1048576")
    if not all(isinstance(shape, str) for shape in document["shapes"]):
        raise invalid("shapes", "must be a list of names")
    return Profile(**{**document, "shapes": tuple(document["shapes"])})


def read_profile(path: pathlib.Path) -> Profile:
    """Read a profile from a YAML file.

    :param path: the file.
    :returns: the profile.
    :raises AcceleratorError: ``INVALID_PROFILE`` if it cannot be read.
    """
    import yaml

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
        raise AcceleratorError(INVALID_PROFILE, f"{path}: {exc}") from exc
    return profile_from_document(document, str(path))


def load_profile(name: str) -> Profile:
    """Read the profile of a built-in accelerator.

    :param name: of the accelerator.
    :returns: its profile.
    :raises AcceleratorError: ``UNKNOWN_ACCELERATOR``, with the names that
        there are, or ``INVALID_PROFILE``.
    """
    known = profile_names()
    if name not in known:
        raise AcceleratorError(
            UNKNOWN_ACCELERATOR,
            f"no accelerator {name!r}; there are: {', '.join(known)}",
        )
    return read_profile(_PROFILE_DIRECTORY / f"{name}.yaml")


def load_profiles() -> dict[str, Profile]:
    """Read the profiles of all built-in accelerators.

    :returns: profiles by name.
    :raises AcceleratorError: ``INVALID_PROFILE``.
    """
    return {name: load_profile(name) for name in profile_names()}


@functools.cache
def profile_names() -> tuple[str, ...]:
    """List the built-in accelerators.

    :returns: their names, sorted.
    """
    paths = _PROFILE_DIRECTORY.glob("*.yaml")
    return tuple(sorted(path.stem for path in paths))


def load_core(name: str) -> type[Core]:
    """Find the class of a software core.

    :param name: its name in the entry points of ``fpgapool.accelerators``.
    :returns: the class.
    :raises AcceleratorError: ``UNKNOWN_ACCELERATOR``, with the names that
        there are.
    """
    # Scanning the installed packages takes a while, and so does this import.
    import importlib.metadata

    found = importlib.metadata.entry_points(group=CORE_NAMESPACE)
    for entry_point in found:
        if entry_point.name == name:
            core: type[Core] = entry_point.load()
            return core
    raise AcceleratorError(
        UNKNOWN_ACCELERATOR,
        f"no software core {name!r}; there are: "
        f"{', '.join(sorted(entry_point.name for entry_point in found))}",
    )


def refuse_unknown_params(
    params: collections.abc.Mapping[str, object],
    known: collections.abc.Collection[str],
) -> None:
    """Refuse parameters that an accelerator does not have.

    :param params: the session's parameters.
    :param known: the names that it has.
    :raises InvalidParams: if there is another one.
    """
    if not isinstance(params, collections.abc.Mapping):
        raise InvalidParams("the parameters must be a mapping")
    unknown = sorted(str(name) for name in params if name not in known)
    if unknown:
        raise InvalidParams(
            f"unknown parameter {unknown[0][:64]!r}; "
            f"there are: {', '.join(sorted(known)) or 'none'}"
        )
