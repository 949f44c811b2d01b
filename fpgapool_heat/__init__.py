# SPDX-License-Identifier: Apache-2.0

"""Resources of Heat: groups and quotas of the pool in templates.

Heat's engine loads ``resources``, not the pool. It asks the REST API with the
rights of whoever owns the stack.
"""
