# SPDX-License-Identifier: Apache-2.0

"""Calls about services: who has shown the leader that it lives."""

from __future__ import annotations

import threading
from typing import Any

from fpgapool import version as installed
from fpgapool.common.monitoring import ratelimit
from fpgapool.conductor.calls import base
from fpgapool.objects import bounds
from fpgapool.rpcapi import pulse
from fpgapool.vocabulary import inventory
from fpgapool.vocabulary import shapes

LOG = ratelimit.RateLimitedLog(__name__)

# After so many seconds without a sign, a process counts as down.
_SILENCE_S = 6 * pulse.INTERVAL_S
# After a day, it is forgotten.
_MEMORY_S = 86400.0
# As many as fit into an answer, with names of usual length.
_MOST = 300

_TEXT = shapes.text(255, printable=True)
_SIGN = shapes.Members(
    {
        "binary": shapes.one_of(inventory.BINARIES),
        "name": _TEXT,
        "host": _TEXT,
        "version": _TEXT,
        "lives": shapes.flag,
    }
)


class ServiceCalls(base.Calls):
    """Keeps signs of life in memory: a new leader hears all of them soon."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # By binary and name, the one that was heard last at the end.
        self._services: dict[tuple[str, str], dict[str, Any]] = {}
        self._services_lock = threading.Lock()

    def note_service(self, ctxt: Any, **sign: Any) -> None:
        """Note that a process lives now, or forget it."""
        try:
            found = _SIGN(sign, "")
        except shapes.Invalid as error:
            LOG.warning("Malformed sign of life dropped: %s", error)
            return
        key = found["binary"], found["name"]
        found["up"] = found.pop("lives")
        found["last_report_at"] = self._pump.now()
        with self._services_lock:
            known = self._services
            known.pop(key, None)
            if found["up"]:
                known[key] = found
            if len(known) > _MOST:
                del known[next(iter(known))]

    @base.call
    def services_now(self, ctxt: Any) -> dict[str, Any]:
        """Return who has shown that it lives, and the leader's version."""
        now = self._pump.now()
        with self._services_lock:
            known = list(reversed(self._services.values()))
        found = [
            {**one, "up": one["last_report_at"] >= now - _SILENCE_S}
            for one in known
            if one["last_report_at"] >= now - _MEMORY_S
        ]
        return {
            "version": installed.version_string(),
            "services": bounds.fitting(found),
        }
