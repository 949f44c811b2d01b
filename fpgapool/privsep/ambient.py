# SPDX-License-Identifier: Apache-2.0

"""An agent that its service manager gives CAP_NET_ADMIN."""

from __future__ import annotations

import os


def give_up() -> None:
    """Leave this process's CAP_NET_ADMIN to the privileged process.

    A service manager gives it to a user's process as an ambient capability.
    Without it, and as root, this does nothing: the privileged process starts
    when it is needed. Call this while there are no other threads.
    """
    if os.geteuid() == 0:
        return
    from oslo_privsep import capabilities
    from oslo_privsep import priv_context

    _, permitted, _ = capabilities.get_caps()
    if capabilities.CAP_NET_ADMIN in permitted:
        # Importing it takes long, and few hosts have a cap.
        from fpgapool.privsep import link

        link.CONTEXT.start(priv_context.Method.FORK)
        # Without inheritable ones there are no ambient ones.
        capabilities.drop_all_caps_except([], [], [])
