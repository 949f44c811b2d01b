# SPDX-License-Identifier: Apache-2.0

"""The files of the source tree."""

import pathlib

from tests.harness import distributions

ROOT = pathlib.Path(__file__).parents[2]
BUILD_FILES = distributions.BUILD_FILES
