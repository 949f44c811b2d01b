# SPDX-License-Identifier: Apache-2.0

"""The words that all packages share: codes, states, names, rules of requests.

It imports nothing of fpgapool, so that every package may import it.
"""
