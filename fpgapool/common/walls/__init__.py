# SPDX-License-Identifier: Apache-2.0

"""Gives up rights of this process, for good and for all its children.

None of it needs a privilege, so that it works for services' own users, inside
systemd's sandbox and in containers. All of it holds for the calling thread and
those that it starts: call it before there are others.

``rights``
    Capabilities, limits, and what the kernel may give the process later.
``landlock``
    Files, TCP and, on newer kernels, signals and abstract sockets.
``calls``
    System calls, through libseccomp.
``places``
    Where the interpreter and its libraries are.
"""
