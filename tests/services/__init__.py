# SPDX-License-Identifier: Apache-2.0

"""Private RabbitMQ, MariaDB and services of OpenStack.

Nothing here touches a system service: every server runs from a directory of
its own, on loopback, on ports of its own. For tests that directory is a
temporary one, and the server dies with the test run; ``tools/ministack`` keeps
both until it is told otherwise.
"""
