# SPDX-License-Identifier: Apache-2.0

"""The client library: programs use it to run accelerators in the pool.

:func:`acc_open` gets a slot, :func:`acc_run` processes data in it and
:func:`acc_close` releases it; :func:`run_file`, :func:`run_stream` and
:func:`run_buffer` do all three for data that is already available.
:func:`group_open` gives access to a group of slots that several programs
share. :func:`run_array`, and the functions of :mod:`fpgapool.client.arrays`,
process NumPy arrays; :func:`map` processes many inputs, and :func:`submit` one
in the background. Importing this package loads only the standard library.

Programs need only this module, ``arrays`` and ``errors``. Internally,
``transfers`` moves whole inputs through ``sessions`` and ``groups``, which
send data to slots over ``links`` and requests to the pool through ``doors``.
``options`` defines the session options that all functions share.
"""

from fpgapool.client import arrays
from fpgapool.client.arrays import run_array
from fpgapool.client.background import map
from fpgapool.client.background import submit
from fpgapool.client.cancel import CancelToken
from fpgapool.client.doors.apidoor import PoolApi
from fpgapool.client.doors.view import SessionView
from fpgapool.client.dryrun import DryRun
from fpgapool.client.dryrun import acc_dry_run
from fpgapool.client.errors import Cancelled
from fpgapool.client.errors import ChecksumMismatch
from fpgapool.client.errors import FpgapoolError
from fpgapool.client.errors import FrontDoorUnavailable
from fpgapool.client.errors import InvalidParams
from fpgapool.client.errors import InvalidRequest
from fpgapool.client.errors import OperationTimeout
from fpgapool.client.errors import RequestRejected
from fpgapool.client.errors import SessionClosed
from fpgapool.client.errors import SessionFailed
from fpgapool.client.errors import TaskFailed
from fpgapool.client.errors import TooManyOpenFiles
from fpgapool.client.errors import WaitTimeout
from fpgapool.client.groups.group import Group
from fpgapool.client.groups.group import group_open
from fpgapool.client.listing import Accelerator
from fpgapool.client.listing import accelerators
from fpgapool.client.sessions.blocks import Block
from fpgapool.client.sessions.opening import acc_close
from fpgapool.client.sessions.opening import acc_open
from fpgapool.client.sessions.opening import acc_run
from fpgapool.client.sessions.session import Session
from fpgapool.client.sessions.session import Statistics
from fpgapool.client.transfers.transfer import GroupReport
from fpgapool.client.transfers.transfer import RunReport
from fpgapool.client.transfers.transfer import run_buffer
from fpgapool.client.transfers.transfer import run_file
from fpgapool.client.transfers.transfer import run_group_file
from fpgapool.client.transfers.transfer import run_stream

__all__ = [
    "Accelerator",
    "Block",
    "CancelToken",
    "Cancelled",
    "ChecksumMismatch",
    "DryRun",
    "FpgapoolError",
    "FrontDoorUnavailable",
    "Group",
    "GroupReport",
    "InvalidParams",
    "InvalidRequest",
    "OperationTimeout",
    "PoolApi",
    "RequestRejected",
    "RunReport",
    "Session",
    "SessionClosed",
    "SessionFailed",
    "SessionView",
    "Statistics",
    "TaskFailed",
    "TooManyOpenFiles",
    "WaitTimeout",
    "acc_close",
    "acc_dry_run",
    "acc_open",
    "acc_run",
    "accelerators",
    "arrays",
    "group_open",
    "map",
    "run_array",
    "run_buffer",
    "run_file",
    "run_group_file",
    "run_stream",
    "submit",
]
