# SPDX-License-Identifier: Apache-2.0

"""Vendordata: the data that Nova requests for an instance.

An instance's boot waits for the answer, and must not fail because of an
accelerator. An instance that the process has looked up before is answered at
once; others are looked up while Nova waits. On any error, the answer is the
instance's existing token, or nothing.
"""

from __future__ import annotations

import collections
import threading
import uuid
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from fpgapool import objects
from fpgapool.api.http import instances
from fpgapool.clients import nova
from fpgapool.common import exception
from fpgapool.common import flavors
from fpgapool.common.monitoring import ratelimit
from fpgapool.db import api as db_api
from fpgapool.rpcapi import conductor as conductor_rpcapi

LOG = logging.getLogger(__name__)
# For log lines that any request can cause.
_OFTEN = ratelimit.RateLimitedLog(__name__)

#: Outcomes of Nova's requests, for the metrics.
GIVEN = "given"
NOT_WANTED = "not_wanted"
REVOKED = "revoked"
REMEMBERED = "remembered"
UNKNOWN = "unknown_instance"
NOT_CONFIGURED = "not_configured"
BUSY = "busy"
TIMEOUT = "timeout"
FAILED = "failed"

# Nova was not queried or returned no usable answer; an existing token is then
# reused.
_UNCLEAR = frozenset({BUSY, TIMEOUT, FAILED})

# Shorter keys can be guessed.
_MIN_KEY_LENGTH = 32

#: Time limit of a request to Nova. A lookup that exceeds ``lookup_timeout_s``
#: continues until then, so that the instance's next request finds a token.
REQUEST_TIMEOUT_S = 5.0

_MAX_NAME_LENGTH = 255

# Maximum number of instances whose accelerators are remembered.
_MOST_REMEMBERED = 10_000

_Found = tuple[dict[str, Any], str]


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as stream:
            return stream.read()
    except (OSError, UnicodeDecodeError) as error:
        raise exception.ConfigurationError(
            reason=f"cannot read [vendordata] ca_file: {error}"
        ) from error


def _given(token: str, accelerators: Sequence[str]) -> _Found:
    return {
        "instance_token": token,
        "accelerators": list(accelerators),
    }, GIVEN


class Vendordata:
    """Answers Nova's requests; thread-safe.

    :param options: the options of ``[vendordata]``.
    :param servers: the client of Nova; None: Nova is not configured.
    :raises ConfigurationError: if an option is invalid.
    """

    def __init__(
        self,
        options: cfg.ConfigOpts.GroupAttr,
        servers: nova.Nova | None,
        conductor: conductor_rpcapi.ConductorAPI,
        known: db_api.Database,
    ) -> None:
        if any(len(key) < _MIN_KEY_LENGTH for key in options.token_keys):
            raise exception.ConfigurationError(
                reason="each of [vendordata] token_keys must have at least"
                f" {_MIN_KEY_LENGTH} characters"
            )
        self._options = options
        self._ca_cert = _read(options.ca_file) if options.ca_file else ""
        self._servers = servers
        self._conductor = conductor
        self._known = known
        # Limits the lookups that wait for Nova. The same number of others can
        # still read the database.
        self._asking = threading.BoundedSemaphore(options.max_lookups)
        self._free = threading.BoundedSemaphore(2 * options.max_lookups)
        self._lock = threading.Lock()
        self._outcomes = collections.Counter[str]()
        # What Nova last said of instances that got a token.
        self._accelerators: dict[str, Sequence[str]] = {}

    @property
    def outcomes(self) -> Mapping[str, int]:
        with self._lock:
            return dict(self._outcomes)

    def answer(self, body: Mapping[str, Any], base_url: str) -> dict[str, Any]:
        """Return an instance's data, quickly and without raising errors.

        :param base_url: the URL with which Nova reached this API.
        """
        instance_id = str(body["instance-id"])
        known: list[db_api.InstanceRecord] = []
        document, outcome = self._within_time(instance_id, known)
        if outcome in _UNCLEAR and (token := self._remembered(known)):
            LOG.info("Instance %s gets its existing token", instance_id)
            document, outcome = {"instance_token": token}, REMEMBERED
        with self._lock:
            self._outcomes[outcome] += 1
        if outcome not in (GIVEN, REMEMBERED):
            return {}
        answer = {"api_url": self._options.api_url or base_url, **document}
        if ca_cert := self._present_ca_cert():
            answer["ca_cert"] = ca_cert
        return answer

    def _present_ca_cert(self) -> str:
        """Return the current certificates, or those read at startup if the
        file is unreadable.
        """
        if self._options.ca_file:
            try:
                return _read(self._options.ca_file)
            except exception.ConfigurationError as error:
                LOG.warning(
                    "%s; instances get the certificates read at startup", error
                )
        return self._ca_cert

    def _remembered(
        self, known: Sequence[db_api.InstanceRecord]
    ) -> str | None:
        """Return the existing token of an instance, if it has one."""
        for record in known:
            if record.usable:
                return self._made_again(record.instance_id, record)
        return None

    def _within_time(
        self, instance_id: str, known: list[db_api.InstanceRecord]
    ) -> _Found:
        """Look an instance up, within the time limit.

        :param known: list to which the instance's row is added, if it exists.
        :returns: the instance's data, and the outcome.
        """
        if self._servers is None or not self._options.token_keys:
            return {}, NOT_CONFIGURED
        if not self._free.acquire(blocking=False):
            _OFTEN.warning(
                "Instance %s was not looked up: too many lookups are running",
                instance_id,
            )
            return {}, BUSY
        found: list[_Found] = []
        done = threading.Event()

        def answer(result: _Found) -> None:
            found.append(result)
            done.set()

        def work() -> None:
            try:
                answer(self._safely(instance_id, known, answer))
            finally:
                self._free.release()
                done.set()

        # A thread cannot be stopped, only abandoned.
        thread = threading.Thread(target=work, name="vendordata", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self._free.release()
            _OFTEN.warning(
                "Instance %s was not looked up: no thread can be started",
                instance_id,
            )
            return {}, BUSY
        if done.wait(self._options.lookup_timeout_s) and found:
            return found[0]
        _OFTEN.warning(
            "Nova did not return the flavor of instance %s within %g s",
            instance_id,
            self._options.lookup_timeout_s,
        )
        return {}, TIMEOUT

    def _safely(
        self,
        instance_id: str,
        known: list[db_api.InstanceRecord],
        answer: Callable[[_Found], None],
    ) -> _Found:
        try:
            return self._look_up(instance_id, known, answer)
        except exception.InstanceNotFound:
            return {}, UNKNOWN
        except Exception as error:
            _OFTEN.warning(
                "Instance %s cannot be looked up: %s: %s",
                instance_id,
                type(error).__name__,
                error,
            )
            return {}, FAILED

    def _look_up(
        self,
        instance_id: str,
        known: list[db_api.InstanceRecord],
        answer: Callable[[_Found], None],
    ) -> _Found:
        """Look an instance up.

        :param answer: called with what is remembered of the instance, if that
            is enough, before Nova is queried.
        """
        instance_id = str(uuid.UUID(instance_id))
        if self._servers is None:
            return {}, NOT_CONFIGURED
        record = self._known.get_instance(instance_id)
        if record is not None:
            known.append(record)
        accelerators = self._accelerators.get(instance_id)
        if accelerators is not None and (token := self._remembered(known)):
            answer(_given(token, accelerators))
        if not self._asking.acquire(blocking=False):
            _OFTEN.warning(
                "Instance %s was not looked up in Nova: too many lookups are"
                " running",
                instance_id,
            )
            return {}, BUSY
        try:
            # Ask Nova instead of using the data in the request, whose sender
            # could claim anything.
            server = self._servers.server(instance_id)
        finally:
            self._asking.release()
        self._accelerators.pop(instance_id, None)
        if server is None or server.deleted:
            return {}, UNKNOWN
        required = flavors.read(server.extra_specs or {})
        if not (required.asks or self._options.all_instances):
            return {}, NOT_WANTED
        token = self._token(instance_id, server, required, record)
        if token is None:
            return {}, REVOKED
        if len(self._accelerators) >= _MOST_REMEMBERED:
            self._accelerators.clear()
        self._accelerators[instance_id] = required.accelerators
        return _given(token, required.accelerators)

    def _token(
        self,
        instance_id: str,
        server: nova.Server,
        required: flavors.Requirements,
        record: db_api.InstanceRecord | None,
    ) -> str | None:
        """Return the token of an instance; None if it was revoked."""
        if record is not None and record.deleted_at is not None:
            raise exception.InstanceNotFound(instance_id=instance_id)
        known: db_api.InstanceRecord | objects.InstanceEntry | None = record
        name = server.name[:_MAX_NAME_LENGTH]
        if record is None or (record.name, record.max_sessions) != (
            name,
            required.max_sessions,
        ):
            known = self._admit(instance_id, server, required)
        token = self._made_again(instance_id, known)
        if token is None and known is not None and not known.token_revoked:
            LOG.info(
                "Instance %s gets a new token, because the key of its old one"
                " was removed",
                instance_id,
            )
            known = self._admit(
                instance_id, server, required, known.token_hash
            )
            token = self._made_again(instance_id, known)
        return token

    def _made_again(
        self,
        instance_id: str,
        known: db_api.InstanceRecord | objects.InstanceEntry | None,
    ) -> str | None:
        if known is None or known.token_revoked:
            return None
        return instances.find_token(
            self._options.token_keys,
            instance_id,
            known.token_nonce,
            known.token_hash,
        )

    def _admit(
        self,
        instance_id: str,
        server: nova.Server,
        required: flavors.Requirements,
        lost_hash: str = "",
    ) -> objects.InstanceEntry:
        nonce = instances.make_nonce()
        key = self._options.token_keys[0]
        token = instances.make_token(key, instance_id, nonce)
        return self._conductor.admit_instance(
            objects.InstanceEntry(
                instance_id=instance_id,
                project_id=server.project_id,
                name=server.name[:_MAX_NAME_LENGTH],
                max_sessions=required.max_sessions,
                token_nonce=nonce,
                token_hash=instances.hash_token(token),
            ),
            lost_hash=lost_hash,
        )
