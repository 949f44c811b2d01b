# SPDX-License-Identifier: Apache-2.0

"""Software cores, which compute on the CPU what programmed slots compute."""
