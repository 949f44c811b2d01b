# SPDX-License-Identifier: Apache-2.0

"""Microversions of the API."""

from __future__ import annotations

import re
from typing import NamedTuple
from typing import Self

from fpgapool.api.http import errors
from fpgapool.vocabulary import codes

SERVICE_TYPE = "fpgapool"
HEADER = "OpenStack-API-Version"

#: One line for each; rest_api_version_history.rst in doc/source/reference has
#: more. The answers of a version never change, so a change is a new line.
VERSIONS = (
    "1.0",  # Release 1.0.0.
)


class Version(NamedTuple):
    """A microversion; later ones are greater."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the version with a name.

        :param text: such as ``1.0``.
        :raises ValueError: if it is not a version.
        """
        found = re.fullmatch(r"([0-9]{1,9})\.([0-9]{1,9})", text)
        if found is None:
            raise ValueError(f"{text!r:.80} is not a version")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


OLDEST = Version.parse(VERSIONS[0])
NEWEST = Version.parse(VERSIONS[-1])


def requested(header: str | None) -> Version:
    """Return the version that a request asks for.

    :param header: ``OpenStack-API-Version``: of one or several services,
        separated by commas. If it lacks this service: the oldest version.
    :raises ApiError: if there is no such version.
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
            f"{HEADER} is {text!r:.80}; the versions are {OLDEST} to {NEWEST}",
        )
    return Version.parse(text)
