# SPDX-License-Identifier: Apache-2.0

"""A thread that reads something from Keystone at intervals."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Generic
from typing import TypeVar

from oslo_log import log as logging

from fpgapool.common import exception
from fpgapool.conductor.runtime import threads

LOG = logging.getLogger(__name__)

_T = TypeVar("_T")


class Follower(threads.Background, abc.ABC, Generic[_T]):
    """Reads something at intervals, and passes it on when it has changed.

    :cvar what: what it reads, in the plural.
    :param otherwise: what applies until Keystone has answered.
    """

    what: str

    def __init__(
        self,
        read: Callable[[], _T],
        interval_s: float,
        on_failure: Callable[[str], None],
        otherwise: str,
    ) -> None:
        self._read = read
        self._interval_s = interval_s
        self._otherwise = otherwise
        self._known: _T | None = None
        self._failing = False
        super().__init__(self.what, on_failure)

    @abc.abstractmethod
    def changed(self, found: _T) -> None:
        """Pass on what has changed.

        :raises KeystoneUnavailable: if it is of no use.
        """

    def follow(self) -> None:
        """Read; if that fails, what was read before still applies."""
        try:
            found = self._read()
            if found != self._known:
                self.changed(found)
        except exception.FpgapoolException as error:
            if not self._failing:
                LOG.warning(
                    "Cannot read %s from Keystone, so %s: %s",
                    self.what,
                    "the previous ones still apply"
                    if self._known is not None
                    else self._otherwise,
                    error,
                )
            self._failing = True
            return
        self._known = found
        if self._failing:
            LOG.info("Can read %s from Keystone again", self.what)
        self._failing = False

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.follow()
            self._stopping.wait(self._interval_s)
