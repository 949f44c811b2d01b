# SPDX-License-Identifier: Apache-2.0

"""Real hosts of Nova's: libvirt and QEMU, which emulates processors.

Several are on one machine. Each has a libvirt daemon with files, a name and
processes of its own, and they share the files of servers, as over NFS.
"""
