# SPDX-License-Identifier: Apache-2.0

"""The boards of hosts, from the scheduler's copy of the pool's snapshot."""

from __future__ import annotations

import dataclasses
import functools
import math
import threading
import time
import typing
from collections.abc import Callable
from collections.abc import Mapping

import nova.conf
from keystoneauth1 import adapter as adapters
from keystoneauth1 import loading
from oslo_log import log as logging

from fpgapool_nova_filters import conf

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

conf.register_opts(CONF)

_PATH = "/pool/snapshot"
_VERSION = "/v1"
_MICROVERSION = "1.0"


class Slots(typing.NamedTuple):
    """Numbers of slots.

    :param usable: slots in service, on a host that is up.
    :param free: usable slots without a session or reservation.
    """

    usable: int
    free: int


NO_SLOTS = Slots(0, 0)


@dataclasses.dataclass(frozen=True, slots=True)
class Host:
    """The boards of a host.

    :param up: whether its agent reports to fpgapool.
    :param has_boards: whether it has boards, even if they are faulty.
    :param all: all its slots.
    :param accelerators: its slots for each accelerator, by name.
    :param queued: number of waiting sessions from this host.
    :param nic_load: share of the network card's rate that the pool's streams
        use, from 0 to 1.
    """

    up: bool
    has_boards: bool
    all: Slots
    accelerators: Mapping[str, Slots]
    queued: int
    nic_load: float

    def slots(self, accelerator: str) -> Slots:
        """Return the slots that can run an accelerator."""
        return self.accelerators.get(accelerator, NO_SLOTS)


#: Hosts, by the UUID of the compute node's resource provider.
Hosts = Mapping[str, Host]


class MalformedError(ValueError):
    """The API's response is not a snapshot."""


class UnknownError(Exception):
    """There is no snapshot, or the last one is too old."""


def parse(document: typing.Any) -> dict[str, Host]:
    """Read the API's response.

    :raises MalformedError: if it is not a snapshot.
    """
    try:
        hosts = document["snapshot"]["hosts"].items()
        return {uuid: _parse_host(host) for uuid, host in hosts}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise MalformedError(f"not a snapshot: {error!r}") from error


def _parse_host(host: typing.Any) -> Host:
    up = bool(host["up"])
    slots = host["slots"]
    nic_load = float(host["nic_load"])
    if math.isnan(nic_load):
        raise ValueError("nic_load is not a number")
    return Host(
        up=up,
        has_boards=int(slots["total"]) > 0,
        all=_parse_slots(slots) if up else NO_SLOTS,
        accelerators={
            name: _parse_slots(found)
            for name, found in host["accelerators"].items()
        }
        if up
        else {},
        queued=max(0, int(host["queued"])),
        nic_load=min(1.0, max(0.0, nic_load)),
    )


def _parse_slots(found: typing.Any) -> Slots:
    return Slots(int(found["usable"]), int(found["free"]))


class Cache:
    """Caches the snapshot, and fetches it again when it is too old.

    Thread-safe. Only one thread fetches it; meanwhile, the others get the
    cached snapshot, or wait if there is none.

    :param fetch: fetches the snapshot; may raise any exception.
    :param clock: a monotonic clock, in seconds.
    :param ttl_s: age at which the snapshot is fetched again.
    :param max_age_s: how long the last snapshot stays valid after the first
        failure to fetch a new one. Its age does not matter, because it is
        fetched only when it is needed.
    :param wait_s: how long threads without a snapshot wait for the thread that
        fetches it.
    """

    def __init__(
        self,
        fetch: Callable[[], Hosts],
        clock: Callable[[], float],
        ttl_s: float,
        max_age_s: float,
        wait_s: float,
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._ttl_s = ttl_s
        self._max_age_s = max(ttl_s, max_age_s)
        self._wait_s = wait_s
        self._changed = threading.Condition()
        self._refreshing = False
        self._hosts: Hosts | None = None
        self._fetched_at_s = -math.inf
        # The time of the first failure since the last response.
        self._failing_since_s = math.inf
        self._tried_at_s = -math.inf
        self._problem = "no request has been sent yet"

    def hosts(self) -> Hosts:
        """Return the boards of all hosts.

        :raises UnknownError: if they are unknown, with the reason.
        """
        with self._changed:
            if not self._is_due():
                return self._known()
            if self._refreshing:
                return self._known_to_others()
            self._refreshing = True
        self._refresh()
        with self._changed:
            return self._known()

    def _is_due(self) -> bool:
        # The same applies after a failure: otherwise every scheduling request
        # would wait for the whole timeout.
        return self._clock() - self._tried_at_s >= self._ttl_s

    def _known_to_others(self) -> Hosts:
        if self._clock() - self._fetched_at_s <= self._max_age_s:
            return self._known()
        self._changed.wait_for(lambda: not self._refreshing, self._wait_s)
        return self._known()

    def _is_too_old(self) -> bool:
        return self._clock() - self._failing_since_s > self._max_age_s

    def _known(self) -> Hosts:
        if self._hosts is None or self._is_too_old():
            raise UnknownError(self._problem)
        return self._hosts

    def _refresh(self) -> None:
        begun_at_s = self._clock()
        hosts: Hosts | None = None
        problem = "the request was interrupted"
        try:
            hosts = self._fetch()
        except Exception as error:
            # Catch any error: instances that need no boards must be placed.
            problem = f"{type(error).__name__}: {error}"
        finally:
            with self._changed:
                self._store(begun_at_s, hosts, problem)

    def _store(
        self, begun_at_s: float, hosts: Hosts | None, problem: str
    ) -> None:
        self._refreshing = False
        self._tried_at_s = self._clock()
        if hosts is None:
            self._problem = problem
            self._failing_since_s = min(
                self._failing_since_s, self._tried_at_s
            )
            self._warn()
        else:
            # The response may be as old as the request.
            self._hosts = hosts
            self._fetched_at_s = begun_at_s
            self._failing_since_s = math.inf
        self._changed.notify_all()

    def _warn(self) -> None:
        if self._hosts is None or self._is_too_old():
            LOG.warning(
                "Cannot get the hosts' boards from fpgapool: %s",
                self._problem,
            )
        else:
            LOG.warning(
                "Cannot get the hosts' boards from fpgapool; its response of"
                " %.1f s ago is still used: %s",
                self._clock() - self._fetched_at_s,
                self._problem,
            )


class Source:
    """Fetches the snapshot for :class:`Cache`, as configured in nova.conf.

    It reads nova.conf only when it fetches, so that errors in the options are
    reported as failures to fetch.
    """

    def __init__(self) -> None:
        self._adapter: adapters.Adapter | None = None

    def __call__(self) -> dict[str, Host]:
        """Fetch the snapshot.

        :raises keystoneauth1.exceptions.ClientException: if the request
            fails.
        :raises MalformedError: if the response is not a snapshot.
        """
        try:
            return self._request()
        except Exception:
            # The API's address may have changed: the next fetch reads the
            # catalog again.
            self._adapter = None
            raise

    def _request(self) -> dict[str, Host]:
        if self._adapter is None:
            self._adapter = _load_adapter()
        # The URL in the catalog may or may not include the version.
        endpoint = self._adapter.get_endpoint() or ""
        named = endpoint.rstrip("/").endswith(_VERSION)
        response = self._adapter.get(_PATH if named else _VERSION + _PATH)
        try:
            document = response.json()
        except ValueError as error:
            raise MalformedError("the response is not valid JSON") from error
        return parse(document)


def _load_adapter() -> adapters.Adapter:
    auth = loading.load_auth_from_conf_options(CONF, conf.GROUP)
    session = loading.load_session_from_conf_options(
        CONF,
        conf.GROUP,
        auth=auth,
        # This also applies to the request for the token.
        timeout=CONF.fpgapool.snapshot_timeout_s,
    )
    return loading.load_adapter_from_conf_options(
        CONF,
        conf.GROUP,
        session=session,
        auth=auth,
        additional_headers={
            "OpenStack-API-Version": f"{conf.SERVICE_TYPE} {_MICROVERSION}"
        },
    )


# Created on first use, and so not in a parent process that forks.
@functools.cache
def cache() -> Cache:
    """Return the cache that the filter and the weigher share."""
    return Cache(
        Source(),
        time.monotonic,
        ttl_s=CONF.fpgapool.snapshot_ttl_s,
        max_age_s=CONF.fpgapool.snapshot_max_age_s,
        # One timeout for the token, and one for the response.
        wait_s=2 * CONF.fpgapool.snapshot_timeout_s,
    )
