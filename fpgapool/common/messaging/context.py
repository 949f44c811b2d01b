# SPDX-License-Identifier: Apache-2.0

"""The context of a request to the REST API."""

import functools
from typing import Self

from oslo_context import context


class RequestContext(context.RequestContext):
    """The caller of a request, and the request ID for log lines."""

    @functools.cached_property
    def seen_by_policies(self) -> str:
        """The caller's values that policies see; they must not change."""
        return repr([*self.to_policy_values().items()])

    def of_request(
        self, request_id: str, global_request_id: str | None
    ) -> Self:
        """Create the caller's context for a request; bind it to this thread.

        The new context shares this one's values, which is much faster than
        creating a context from scratch.
        """
        known = type(self).__new__(type(self))
        known.__dict__.update(
            self.__dict__,
            request_id=request_id,
            global_request_id=global_request_id,
            seen_by_policies=self.seen_by_policies,
        )
        known.update_store()
        return known
