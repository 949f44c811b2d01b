# SPDX-License-Identifier: Apache-2.0

"""Entry points of the commands."""

import warnings

# oslo.messaging imports eventlet, which nothing here uses: everything runs
# in threads. An operator can do nothing about the warning that this causes.
warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
