# SPDX-License-Identifier: Apache-2.0

import pathlib

import fpgapool_dashboard

_CONF = pathlib.Path(fpgapool_dashboard.__file__).parent / "conf"
# Operators may change the policies in a file of this name in Horizon's own
# directory, POLICY_FILES_PATH.
POLICY_FILES["fpgapool"] = "fpgapool_policy.yaml"
DEFAULT_POLICY_FILES["fpgapool"] = str(
    _CONF / "default_policies" / "fpgapool.yaml"
)
