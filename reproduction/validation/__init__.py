# SPDX-License-Identifier: Apache-2.0

"""The same jobs in the real system and in the simulator.

The real system is ``fpgapool-allinone`` with emulated boards and clients,
which are processes of their own. Only the program
:mod:`reproduction.validation.tenant`, which is such a client, imports parts of
it.
"""
