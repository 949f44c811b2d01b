# SPDX-License-Identifier: Apache-2.0

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
