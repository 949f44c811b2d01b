# SPDX-License-Identifier: Apache-2.0

"""Tokens of instances, and authentication with them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import math
import re
import secrets
import uuid
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from oslo_middleware import request_id

from fpgapool.api.http import errors
from fpgapool.api.http import middleware
from fpgapool.common import exception
from fpgapool.common.messaging import context
from fpgapool.common.monitoring import ratelimit
from fpgapool.db import api as db_api
from fpgapool.objects import instance
from fpgapool.vocabulary import codes

#: Prefix that distinguishes the tokens of instances from all others.
PREFIX = "fpi_"

#: The role of an instance; see :data:`rights.BASIC`.
ROLE = "fpgapool:instance"

_PURPOSE = b"fpgapool instance token 1\0"
_ID_BYTES = 16
_TOKEN = re.compile(rf"{PREFIX}([A-Za-z0-9_-]{{64}})")
_NONCE_BYTES = 16

# Compared with the token's hash if the token's instance is unknown.
_NO_HASH = "0" * 64

_BEARER = "bearer "


def make_nonce() -> str:
    """Return a random nonce, so that an instance's new token differs from its
    earlier ones.
    """
    return secrets.token_hex(_NONCE_BYTES)


def make_token(key: str, instance_id: str, nonce: str) -> str:
    """Return the token of an instance; it depends only on the parameters.

    Tokens therefore need not be stored: whenever Nova asks again, for a config
    drive or the metadata service, it gets the same token.
    """
    name = uuid.UUID(instance_id).bytes
    seal = hmac.digest(
        key.encode(), _PURPOSE + name + nonce.encode(), "sha256"
    )
    return PREFIX + base64.urlsafe_b64encode(name + seal).decode()


def hash_token(token: str) -> str:
    """Return the hash of a token, for the database.

    The token cannot be guessed, because its key is secret and long, so the
    hash needs no salt and need not be slow.
    """
    return hashlib.sha256(token.encode()).hexdigest()


def find_token(
    keys: Sequence[str], instance_id: str, nonce: str, token_hash: str
) -> str | None:
    """Return the token of an instance; None if its key is not one of these."""
    for key in keys:
        token = make_token(key, instance_id, nonce)
        if hmac.compare_digest(hash_token(token), token_hash):
            return token
    return None


def instance_of(token: str) -> str | None:
    """Return the instance that a token names; None if the token is invalid."""
    matched = _TOKEN.fullmatch(token)
    if matched is None:
        return None
    try:
        content = base64.urlsafe_b64decode(matched[1])
    except binascii.Error:
        return None
    return str(uuid.UUID(bytes=content[:_ID_BYTES]))


def owner(caller: context.RequestContext) -> str | None:
    """Return the user to whose resources a caller is restricted, if any."""
    if ROLE not in caller.roles:
        return None
    return caller.user_id or ""


class InstanceAuth:
    """Authenticates instances, before Keystone's middleware.

    A request with an instance's token never reaches Keystone's middleware, and
    its headers about users and roles are ignored. All other requests pass
    through unchanged.

    :param others: the application for requests without an instance's token.
    :param app: the application for authenticated instances.
    :param known: the database with the instances.
    :param retry_after_s: ``Retry-After`` of errors after which the same
        request may succeed.
    """

    def __init__(
        self,
        others: middleware.Application,
        app: middleware.Application,
        known: db_api.Database,
        limiter: ratelimit.Limiter,
        retry_after_s: int = 2,
    ) -> None:
        self._retry_after_s = retry_after_s
        self._others = others
        self._app = app
        self._known = known
        self._limiter = limiter

    def __call__(
        self,
        environ: middleware.Environ,
        start_response: middleware.StartResponse,
    ) -> Iterable[bytes]:
        token = _presented(environ)
        if token is None:
            return self._others(environ, start_response)
        try:
            record = self._identify(token)
        except (errors.ApiError, exception.FpgapoolException) as error:
            refusal = errors.translate(error)
            if refusal.try_later:
                refusal.headers.setdefault(
                    "Retry-After", str(self._retry_after_s)
                )
            return middleware.refuse(environ, start_response, refusal)
        environ[middleware.CONTEXT] = context.RequestContext(
            user_id=instance.user_of(record.instance_id),
            project_id=record.project_id,
            roles=[ROLE],
        ).of_request(
            environ[request_id.ENV_REQUEST_ID],
            environ.get(request_id.GLOBAL_REQ_ID),
            environ.get(middleware.TRACEPARENT),
        )
        return self._app(environ, start_response)

    def _identify(self, token: str) -> db_api.InstanceRecord:
        """Return the instance to which a token belongs.

        :raises ApiError: if the token is invalid, or the instance sends too
            many requests.
        """
        instance_id = instance_of(token)
        record = self._known.get_instance(instance_id) if instance_id else None
        expected = record.token_hash if record else _NO_HASH
        # Compare even if the instance is unknown: otherwise the response time
        # would reveal which instances exist.
        fits = instance_id is not None and hmac.compare_digest(
            hash_token(token), expected
        )
        if record is None or not fits or not record.usable:
            raise errors.ApiError(
                codes.UNAUTHORIZED,
                "the instance's token is invalid or has been revoked",
                headers={"WWW-Authenticate": 'Bearer realm="fpgapool"'},
            )
        wait_s = self._limiter.wait_s(record.instance_id)
        if wait_s > 0:
            raise errors.ApiError(
                codes.RATE_LIMITED,
                "too many requests from this instance",
                headers={"Retry-After": str(math.ceil(wait_s))},
            )
        return record


def _presented(environ: middleware.Environ) -> str | None:
    """Return the instance's token in a request; ignore all other tokens.

    An ``X-Auth-Token`` takes precedence over a bearer token.
    """
    token: Any = environ.get("HTTP_X_AUTH_TOKEN", "").strip()
    if not token:
        credentials: str = environ.get("HTTP_AUTHORIZATION", "").strip()
        if credentials[: len(_BEARER)].lower() == _BEARER:
            token = credentials[len(_BEARER) :].strip()
    return token if token.startswith(PREFIX) else None
