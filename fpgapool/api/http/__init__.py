# SPDX-License-Identifier: Apache-2.0

"""What any request to the API needs, whatever its resource.

``middleware`` and the applications around it (``access_log``, ``tokens``,
``instances``) find out who asks; ``microversion`` and ``validation`` check
what is asked; ``crowd`` and ``threads`` limit how much; ``errors`` and
``times`` format answers; ``audit_trail`` records the use of privileges.
:mod:`fpgapool.api.app` puts them together. Nothing here knows a resource.
"""
