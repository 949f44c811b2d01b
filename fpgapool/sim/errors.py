# SPDX-License-Identifier: Apache-2.0

"""Errors in the input of a simulation."""

from __future__ import annotations

from fpgapool.vocabulary import exceptions


class InputError(exceptions.PicklableError):
    """Input that cannot be simulated.

    :param source: the file, or the option on the command line.
    :param place: a place in it, for example ``jobs[3].size_bytes``; empty: the
        whole source.
    """

    def __init__(self, source: str, place: str, reason: str) -> None:
        where = f"{source}: {place}" if place else source
        super().__init__(f"{where}: {reason}")
        self.source = source
        self.place = place
        self.reason = reason


class SystemFailed(Exception):
    """The real system failed."""
