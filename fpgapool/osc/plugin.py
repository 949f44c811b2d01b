# SPDX-License-Identifier: Apache-2.0

"""The entry points of the ``openstack`` command's plugin."""

from __future__ import annotations

import argparse
from typing import Any

from osc_lib import utils

from fpgapool.osc.sdk import fpgapool_service
from fpgapool.osc.sdk import proxy
from fpgapool.vocabulary import microversions

DEFAULT_API_VERSION = "1"
API_VERSION_OPTION = "os_fpgapool_api_version"
API_NAME = "fpgapool"
API_VERSIONS = ("1", *microversions.VERSIONS)


def make_client(instance: Any) -> proxy.Proxy:
    return fpgapool_service.proxy_of(instance.sdk_connection)


def build_option_parser(
    parser: argparse.ArgumentParser,
) -> argparse.ArgumentParser:
    parser.add_argument(
        "--os-fpgapool-api-version",
        metavar="<fpgapool-api-version>",
        default=utils.env("OS_FPGAPOOL_API_VERSION"),
        help="FPGA pool API version, default="
        f"{DEFAULT_API_VERSION} (Env: OS_FPGAPOOL_API_VERSION)",
    )
    return parser
