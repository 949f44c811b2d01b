# SPDX-License-Identifier: Apache-2.0

"""How many of the web server's threads each kind of request may occupy."""

from __future__ import annotations

import fractions
import importlib

from oslo_config import cfg
from oslo_log import log as logging

LOG = logging.getLogger(__name__)

# Maximum shares of one project, and of the requests that wait for sessions.
# The remaining threads are for other requests.
_PROJECT_SHARE = fractions.Fraction(3, 4)
_WAITING_SHARE = fractions.Fraction(2, 3)
# The same for a server of which the number of threads is unknown.
_PROJECT_REQUESTS = 36
_WAITERS = 16


def count(conf: cfg.ConfigOpts) -> int | None:
    """Return how many requests this process answers at the same time.

    :returns: None if neither the configuration nor the web server states it.
    """
    threads: int | None = conf.api.server_threads or _of_uwsgi()
    if threads is None:
        LOG.info(
            "The web server does not report its number of threads; set "
            "[api] server_threads"
        )
    return threads


def most_of_a_project(limit: int | None, threads: int | None) -> int:
    """Return how many requests of one project may be in progress.

    :param limit: the operator's limit; None: there is none.
    """
    if threads is None:
        return _PROJECT_REQUESTS if limit is None else limit
    share = max(1, int(threads * _PROJECT_SHARE))
    return share if limit is None else min(limit, share)


def most_that_wait(limit: int | None, threads: int | None) -> int:
    """Return the number of requests that may wait for sessions.

    :param limit: the operator's limit; None: there is none.
    """
    if threads is None:
        return _WAITERS if limit is None else limit
    share = int(threads * _WAITING_SHARE)
    return share if limit is None else min(limit, share)


def _of_uwsgi() -> int | None:
    """Return uWSGI's number of threads; None if this is not uWSGI."""
    try:
        # The module exists only in uWSGI.
        options = importlib.import_module("uwsgi").opt
    except (ImportError, AttributeError):
        return None
    value = options.get("threads", b"1")
    if isinstance(value, list):
        value = value[-1]
    try:
        return max(1, int(value))
    except ValueError:
        return None
