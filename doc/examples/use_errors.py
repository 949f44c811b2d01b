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

"""Tell what went wrong, and whether trying again can help."""

import sys

from fpgapool import client

try:
    client.run_file("aes", "plain", "encrypted", params={"key": "00"})
except client.InvalidRequest as error:
    sys.exit(f"this will never do: {error}")
except client.FrontDoorUnavailable as error:
    sys.exit(f"there is no pool: {error}")
except client.SessionFailed as error:
    sys.exit(f"{error}; complete up to byte {error.offset_bytes}")
except client.FpgapoolError as error:
    # The pool refuses, or has no slot in time.
    sys.exit(f"not now: {error}")
