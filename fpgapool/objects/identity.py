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

"""Names of hardware that stay the same for ever."""

import uuid


def device_id(host_uuid: str, device_name: str) -> str:
    """Return the identifier of a device, in the API and in Placement.

    :raises ValueError: if the host's is not a UUID.
    """
    return str(uuid.uuid5(uuid.UUID(host_uuid), device_name))


def slot_id(of_device_id: str, number: int) -> str:
    """Return the identifier of a slot in the API.

    :raises ValueError: if the device's is not a UUID.
    """
    return str(uuid.uuid5(uuid.UUID(of_device_id), str(number)))
