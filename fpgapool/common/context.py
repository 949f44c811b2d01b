#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

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
