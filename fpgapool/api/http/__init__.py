# SPDX-License-Identifier: Apache-2.0

"""What requests to all resources have in common.

``middleware`` and the applications around it (``access_log``, ``tokens``,
``instances``) authenticate callers; ``microversion`` and ``validation`` check
requests; ``crowd`` and ``threads`` limit their number; ``errors`` and
``times`` format responses; ``audit_trail`` records the use of privileges.
:mod:`fpgapool.api.app` puts them together.
"""
