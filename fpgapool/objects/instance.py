# SPDX-License-Identifier: Apache-2.0

"""Nova instances that have their own tokens."""

import dataclasses

from fpgapool.objects import base

_PREFIX = "instance:"


@dataclasses.dataclass(frozen=True, kw_only=True)
class InstanceEntry(base.Payload):
    """The pool's entry for an instance.

    :param token_nonce: value from which the token is derived, together with a
        secret.
    """

    instance_id: str
    project_id: str
    name: str = ""
    max_sessions: int | None = None
    token_nonce: str
    token_hash: str
    token_revoked: bool = False


def user_of(instance_id: str) -> str:
    """Return the user id of an instance."""
    return _PREFIX + instance_id


def id_of(user_id: str) -> str | None:
    """Return the instance with a user id; None if it is a user of Keystone.

    Keystone's user ids contain no colon.
    """
    return user_id.removeprefix(_PREFIX) if is_user(user_id) else None


def is_user(user_id: str) -> bool:
    return user_id.startswith(_PREFIX)


def may_share(user_id: str, other_user_id: str) -> bool:
    """Whether one user may see the requests of another.

    Users of a project share its sessions; an instance has its own.
    """
    return user_id == other_user_id or not (
        is_user(user_id) or is_user(other_user_id)
    )
