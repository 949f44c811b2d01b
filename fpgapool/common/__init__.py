# SPDX-License-Identifier: Apache-2.0

"""What all services share: configuration, errors, clocks, signals, TLS.

``channels`` carries bytes between processes, ``messaging`` calls between
services, ``monitoring`` logs and metrics. ``arguments`` declares those of
commands. Nothing here knows the pool.
"""
