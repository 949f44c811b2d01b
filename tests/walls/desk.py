# SPDX-License-Identifier: Apache-2.0

"""A desk that a tenant has got hold of: it carries attacks out when its agent
asks. Its settings have the ``scene`` of the attacks, too.
"""

from __future__ import annotations

import json
import sys
import typing

from fpgapool.agent.groupdesk import __main__ as desk
from fpgapool.agent.groupdesk import service
from fpgapool.protocol import messages
from tests.walls import attacks


def main() -> int:
    """Run the desk; return its exit status."""
    scene = json.loads(sys.argv[1])["scene"]
    obey = service.Desk._obey

    def attacked(
        self: service.Desk, message: messages.Message
    ) -> dict[str, typing.Any]:
        if message.get("op") != "attack":
            return obey(self, message)
        return {"outcome": attacks.outcome(str(message["name"]), scene)}

    service.Desk._obey = attacked  # type: ignore[method-assign]
    return desk.main()


if __name__ == "__main__":
    sys.exit(main())
