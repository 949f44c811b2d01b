# SPDX-License-Identifier: Apache-2.0

"""Microversions of the API."""

from __future__ import annotations

from typing import NamedTuple
from typing import Self

from fpgapool.api.http import errors
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import microversions

SERVICE_TYPE = "fpgapool"
HEADER = "OpenStack-API-Version"

VERSIONS = microversions.VERSIONS


class Version(NamedTuple):
    """A microversion; later ones are greater."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the version with a name such as ``1.0``."""
        return cls(*map(int, text.split(".")))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


OLDEST = Version.parse(microversions.OLDEST)
NEWEST = Version.parse(microversions.NEWEST)


def requested(header: str | None) -> Version:
    """Return the version that a request specifies.

    :param header: the ``OpenStack-API-Version``, with the versions of one or
        more services, separated by commas. Without this service, the oldest
        version applies.
    :raises ApiError: if the version is not supported.
    """
    wanted = [
        words[1:]
        for part in (header or "").split(",")
        if (words := part.split()) and words[0].lower() == SERVICE_TYPE
    ]
    if not wanted:
        return OLDEST
    text = " ".join(wanted[-1])
    if text == "latest":
        return NEWEST
    if text not in VERSIONS:
        raise errors.ApiError(
            codes.VERSION_NOT_ACCEPTABLE,
            f"{HEADER} is {text!r:.80}; supported versions are {OLDEST} to"
            f" {NEWEST}",
        )
    return Version.parse(text)
