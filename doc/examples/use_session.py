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

"""Fill the buffers of a session by hand."""

from fpgapool import client

parts = [b"hello ", b"world"]
with client.acc_open(
    "sha", size_bytes=sum(map(len, parts)), params={"algorithm": "sha256"}
) as session:
    for part in parts:
        session.pin[: len(part)] = part
        client.acc_run(session, len(part))
    # What comes at the end; with most accelerators there is nothing.
    print(session.finish().hex())
