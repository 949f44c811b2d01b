# SPDX-License-Identifier: Apache-2.0

"""The parts that requests to all resources have in common.

``middleware``, ``tokens`` and ``instances`` authenticate callers, and
``access_log`` logs requests. ``rights`` defines the rules of policies.
``microversion`` and ``validation`` check requests, and ``crowd`` and
``threads`` limit their number. ``errors`` and ``times`` format responses.
``audit_trail`` records the use of privileges. :mod:`fpgapool.api.app` combines
them.
"""
