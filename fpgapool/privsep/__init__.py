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

"""What needs privileges, and nothing else.

The functions here run in a small process of their own, started by
oslo.privsep, that keeps CAP_NET_ADMIN only; the agent itself needs none.
"""

#: Below this a cap would hardly let a connection live.
MIN_CAP_BYTES_PER_S = 125_000
MAX_CAP_BYTES_PER_S = 10**12
