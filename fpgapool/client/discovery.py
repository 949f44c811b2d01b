# SPDX-License-Identifier: Apache-2.0

"""Find the pool for programs that do not specify how to reach it."""

from __future__ import annotations

import os
import typing
from collections.abc import Sequence

from fpgapool.client import errors
from fpgapool.client import log
from fpgapool.client.doors import door as doors
from fpgapool.client.doors import frontdoor
from fpgapool.client.doors import poolapi
from fpgapool.common.channels import waits
from fpgapool.vocabulary import codes

if typing.TYPE_CHECKING:
    from fpgapool.client.doors import instance

_CLOUD_VARIABLES = ("OS_CLOUD", "OS_AUTH_URL")


def find(
    finder: instance.Finder | None = None,
    pause: doors.Pause = lambda _: False,
) -> str | poolapi.PoolApi:
    """Find the pool.

    The result is the first of these that exists: the front door of this host,
    from ``FPGAPOOL_SOCKET`` or at a conventional path; the API at
    ``FPGAPOOL_API_URL``, with the token in ``FPGAPOOL_INSTANCE_TOKEN``; the
    API of the cloud in ``OS_CLOUD`` or the other variables ``OS_…``; the API
    that Nova announces to this instance.

    :param finder: finder of Nova's data; None means the process's own.
    :returns: path of the front door's socket, or the API.
    :raises errors.FrontDoorUnavailable: if there is none; ``places`` lists
        where the library looked.
    :raises errors.InvalidRequest: if a variable is invalid.
    """
    try:
        path = frontdoor.default_path()
        log.debug("The pool is at the front door %s", path)
        return path
    except errors.FrontDoorUnavailable as exc:
        no_door = exc.places
    # Nova, and what names a cloud, may have to be asked.
    return waits.offload(lambda: _api(finder, pause, no_door))


def find_groups(
    finder: instance.Finder | None = None,
    pause: doors.Pause = lambda _: False,
) -> str | poolapi.PoolApi:
    """Find the pool in order to use groups.

    Like :func:`find`, except that an API named by the environment comes before
    the front door of this host, which serves only one project.
    """
    return _named_api() or find(finder, pause)


def _api(
    finder: instance.Finder | None,
    pause: doors.Pause,
    no_door: Sequence[errors.Place],
) -> poolapi.PoolApi:
    named = _named_api()
    if named is not None:
        return named
    from fpgapool.client.doors import instance

    finder = finder or instance.FINDER
    credentials, places = finder.find(pause=pause)
    if credentials is None:
        raise errors.no_pool([*no_door, *places])
    log.debug("The pool is at the API that Nova names")
    return _of_nova(finder, pause, credentials, ())


def _named_api() -> poolapi.PoolApi | None:
    """Return the API that the environment names, if any."""
    from fpgapool.client.doors import instance

    credentials = instance.from_environment(os.environ)
    if credentials is not None:
        log.debug("The pool is at the API that the token's variables name")
        return poolapi.PoolApi.of_instance(credentials)
    url = os.environ.get(instance.API_URL)
    if url:
        log.debug("The pool is at the API that %s names", instance.API_URL)
        return poolapi.PoolApi.at(url)
    if any(os.environ.get(name) for name in _CLOUD_VARIABLES):
        log.debug("The pool is at the API of the cloud in variables OS_...")
        return poolapi.PoolApi.from_cloud()
    return None


def _of_nova(
    finder: instance.Finder,
    pause: doors.Pause,
    found: instance.Credentials,
    refused: tuple[instance.Credentials, ...],
) -> poolapi.PoolApi:
    """Return the API that Nova names, with a new token if necessary."""

    def renew(reason: str) -> poolapi.PoolApi:
        worthless = (*refused, found)
        other, places = finder.find(pause=pause, refused=worthless)
        if other is not None:
            return _of_nova(finder, pause, other, worthless)
        raise errors.RequestRejected(
            codes.UNAUTHORIZED,
            f"{reason}; Nova has no other token for this machine:"
            f" {'; '.join(map(str, places))}. Revoked tokens are not replaced:"
            " use an application credential, or a different instance",
        )

    return poolapi.PoolApi.of_instance(found, renew)
