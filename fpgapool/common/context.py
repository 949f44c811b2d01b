# SPDX-License-Identifier: Apache-2.0

"""The context that travels with every RPC."""

from typing import Any

from oslo_context import context


class RequestContext(context.RequestContext):
    """Who asks, and the id that ties log lines of one request together."""

    def to_dict(self) -> dict[str, Any]:
        """Return a form for RPC, without the caller's token.

        Nothing behind RPC acts in the caller's name, so a token on the bus
        could only be stolen.
        """
        values = super().to_dict()
        values.pop("auth_token", None)
        return values


def service_context() -> RequestContext:
    """Return a context for what a service does on its own account."""
    return RequestContext(is_admin=True, overwrite=False)
