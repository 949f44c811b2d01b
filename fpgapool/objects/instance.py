# SPDX-License-Identifier: Apache-2.0

"""Instances of Nova that have tokens of their own."""

import dataclasses

from fpgapool.objects import base

_PREFIX = "instance:"


@dataclasses.dataclass(frozen=True, kw_only=True)
class InstanceEntry(base.Payload):
    """What the pool knows of an instance.

    :param instance_id: what Nova calls it.
    :param name: for people.
    :param max_sessions: how many it may have at a time; None: any number.
    :param token_nonce: what its token is made of, beside a secret.
    :param token_hash: SHA-256 of its token, hexadecimal.
    :param token_revoked: it has lost its token for good.
    """

    instance_id: str
    project_id: str
    name: str = ""
    max_sessions: int | None = None
    token_nonce: str
    token_hash: str
    token_revoked: bool = False


def user_of(instance_id: str) -> str:
    """Return by which user's name an instance acts.

    :param instance_id: what Nova calls it.
    """
    return _PREFIX + instance_id


def id_of(user_id: str) -> str | None:
    """Return the instance that acts by a user's name; None: it is none.

    :param user_id: of a session or request. Keystone's have no colon.
    """
    return user_id.removeprefix(_PREFIX) if is_user(user_id) else None


def is_user(user_id: str) -> bool:
    """Whether an instance acts by a user's name."""
    return user_id.startswith(_PREFIX)


def may_share(user_id: str, other_user_id: str) -> bool:
    """Whether one may be told of what the other has asked for.

    Users of a project share what the project has; an instance has its own.
    """
    return user_id == other_user_id or not (
        is_user(user_id) or is_user(other_user_id)
    )
