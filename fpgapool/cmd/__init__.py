# SPDX-License-Identifier: Apache-2.0

"""Entry points of the commands."""

import os
import warnings

# oslo.messaging imports eventlet, which fpgapool does not use: it uses
# threads. An operator can do nothing about this warning.
warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
# Eventlet's resolver imports a hundred modules, which takes a fifth of a
# command's start-up time.
os.environ.setdefault("EVENTLET_NO_GREENDNS", "yes")
