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

"""Vendordata: what Nova asks for on behalf of an instance."""

from __future__ import annotations

from fpgapool.api import call as calls


def create(call: calls.Call) -> calls.Answer:
    """Tell an instance how to reach the pool; nothing if it has no token."""
    desk = call.backends.vendordata
    answer = desk.answer(call.body, call.base_url) if desk else {}
    return calls.Answer(document=answer)
