# SPDX-License-Identifier: Apache-2.0

"""The context of a request: its caller, and the IDs for log lines."""

import contextlib
import functools
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import Self

import oslo_messaging as messaging
from oslo_context import context

from fpgapool.vocabulary import carriers

_REQUEST_ID = "request_id"


class RequestContext(context.RequestContext):
    """The caller of a request, and the IDs for log lines.

    :ivar traceparent: see :mod:`fpgapool.vocabulary.carriers`.
    """

    traceparent: str | None = None

    @functools.cached_property
    def seen_by_policies(self) -> str:
        """The caller's values that policies see; they must not change."""
        return repr([*self.to_policy_values().items()])

    @property
    def carrier(self) -> carriers.Carrier:
        """What goes along with the request; its own ID is the global one if
        the caller has none.
        """
        found = {
            carriers.GLOBAL_REQUEST_ID: (
                self.global_request_id or self.request_id
            ),
            carriers.TRACEPARENT: self.traceparent,
        }
        return {name: value for name, value in found.items() if value}

    def of_request(
        self,
        request_id: str,
        global_request_id: str | None,
        traceparent: str | None = None,
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
            traceparent=traceparent,
            seen_by_policies=self.seen_by_policies,
        )
        known.update_store()
        return known


@functools.cache
def _nobody() -> RequestContext:
    return RequestContext(overwrite=False)


def bind(
    request_id: str | None, carrier: Mapping[str, Any] | None = None
) -> None:
    """Make this thread's log lines show a request; empty: no request."""
    if not request_id and not carrier:
        # There is no public way to forget a context.
        context._request_store.context = None
        return
    found = carrier or {}
    _nobody().of_request(
        request_id or "-",
        found.get(carriers.GLOBAL_REQUEST_ID),
        found.get(carriers.TRACEPARENT),
    )


@contextlib.contextmanager
def serving(
    request_id: str | None, carrier: Mapping[str, Any] | None = None
) -> Iterator[None]:
    """Make this thread's log lines in the block show a request."""
    before = context.get_current()
    bind(request_id, carrier)
    try:
        yield
    finally:
        context._request_store.context = before


class Serializer(messaging.NoOpSerializer):
    """Sends the IDs of the sending thread's request with each message.

    Receivers only write them to their logs: nothing proves who sent them.
    """

    def serialize_context(self, ctxt: Any) -> dict[str, Any]:
        current = context.get_current()
        if not isinstance(current, RequestContext):
            return {}
        return {
            **current.carrier,
            _REQUEST_ID: current.request_id,
        }

    def deserialize_context(self, ctxt: Any) -> dict[str, Any]:
        """Bind the receiving thread to the request until :func:`bind`."""
        given = ctxt if isinstance(ctxt, Mapping) else {}
        bind(
            carriers.request_id(given.get(_REQUEST_ID)), carriers.valid(given)
        )
        return {}
