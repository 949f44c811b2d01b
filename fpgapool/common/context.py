# SPDX-License-Identifier: Apache-2.0

"""The request context of every RPC."""

from typing import Any

from oslo_context import context


class RequestContext(context.RequestContext):
    """The user, and the request id that log lines carry."""

    def to_dict(self) -> dict[str, Any]:
        """Return a form for RPC, without the caller's token.

        Services behind RPC do not act in the caller's name, so a token on the
        bus could only be stolen.
        """
        values = super().to_dict()
        values.pop("auth_token", None)
        return values


def service_context() -> RequestContext:
    """Return a context for a service's own actions."""
    return RequestContext(is_admin=True, overwrite=False)
