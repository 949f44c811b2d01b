# SPDX-License-Identifier: Apache-2.0

"""What the documentation of all modules has."""


class ModuleDocFragment:
    """Options of the connection."""

    DOCUMENTATION = r"""
options:
  cloud:
    description:
      - Cloud of C(clouds.yaml). By default C(OS_CLOUD), or the other
        variables C(OS_...).
    type: str
  region_name:
    description:
      - Region in Keystone's catalog.
    type: str
requirements:
  - fpgapool[cli]
attributes:
  check_mode:
    support: full
    description: Says what it would change, and changes nothing.
  diff_mode:
    support: full
    description: Shows what it changes.
"""
