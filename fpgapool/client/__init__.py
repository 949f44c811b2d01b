# SPDX-License-Identifier: Apache-2.0

"""The client library: programs use it to run accelerators in the pool.

:func:`acc_open` gets a slot, :func:`acc_run` processes data in it and
:func:`acc_close` releases it; :func:`run_file`, :func:`run_stream` and
:func:`run_buffer` do all three for data that is already available.
:func:`group_open` gives access to a group of slots that several programs
share; :func:`acc_open_set` gets several slots at the same time, and
:func:`chain` puts accelerators one after the other.
:func:`run_array`, and the functions of :mod:`fpgapool.client.arrays`,
process NumPy arrays; :func:`map` processes many inputs, and :func:`submit` one
in the background. Importing this package loads only the standard library.

Programs need only this module, ``aio``, ``alignments``, ``arrays`` and
``errors``. Internally,
``transfers`` moves whole inputs through ``sessions`` and ``groups``, which
send data to slots over ``links`` and requests to the pool through ``doors``.
``options`` defines the session options that all functions share.
"""

import importlib
import typing

if typing.TYPE_CHECKING:
    from fpgapool.client import aio as aio
    from fpgapool.client import alignments as alignments
    from fpgapool.client import arrays as arrays
    from fpgapool.client import errors as errors
    from fpgapool.client.arrays import run_array as run_array
    from fpgapool.client.background import map as map
    from fpgapool.client.background import submit as submit
    from fpgapool.client.cancel import CancelToken as CancelToken
    from fpgapool.client.chains.chain import Chain as Chain
    from fpgapool.client.chains.chain import chain as chain
    from fpgapool.client.chains.transfer import ChainReport as ChainReport
    from fpgapool.client.doors.poolapi import PoolApi as PoolApi
    from fpgapool.client.doors.view import SessionView as SessionView
    from fpgapool.client.dryrun import DryRun as DryRun
    from fpgapool.client.dryrun import acc_dry_run as acc_dry_run
    from fpgapool.client.errors import Cancelled as Cancelled
    from fpgapool.client.errors import ChecksumMismatch as ChecksumMismatch
    from fpgapool.client.errors import FpgapoolError as FpgapoolError
    from fpgapool.client.errors import (
        FrontDoorUnavailable as FrontDoorUnavailable,
    )
    from fpgapool.client.errors import InvalidParams as InvalidParams
    from fpgapool.client.errors import InvalidRequest as InvalidRequest
    from fpgapool.client.errors import OperationTimeout as OperationTimeout
    from fpgapool.client.errors import RequestRejected as RequestRejected
    from fpgapool.client.errors import SessionClosed as SessionClosed
    from fpgapool.client.errors import SessionFailed as SessionFailed
    from fpgapool.client.errors import TaskFailed as TaskFailed
    from fpgapool.client.errors import TooManyOpenFiles as TooManyOpenFiles
    from fpgapool.client.errors import WaitTimeout as WaitTimeout
    from fpgapool.client.groups.group import Group as Group
    from fpgapool.client.groups.group import group_open as group_open
    from fpgapool.client.listing import Accelerator as Accelerator
    from fpgapool.client.listing import accelerators as accelerators
    from fpgapool.client.sessions.blocks import Block as Block
    from fpgapool.client.sessions.opening import acc_close as acc_close
    from fpgapool.client.sessions.opening import acc_open as acc_open
    from fpgapool.client.sessions.opening import acc_run as acc_run
    from fpgapool.client.sessions.session import Session as Session
    from fpgapool.client.sessions.session import Statistics as Statistics
    from fpgapool.client.sessions.together import SessionSet as SessionSet
    from fpgapool.client.sessions.together import acc_open_set as acc_open_set
    from fpgapool.client.transfers.grouped import GroupReport as GroupReport
    from fpgapool.client.transfers.grouped import (
        run_group_file as run_group_file,
    )
    from fpgapool.client.transfers.transfer import RunReport as RunReport
    from fpgapool.client.transfers.transfer import run_buffer as run_buffer
    from fpgapool.client.transfers.transfer import run_file as run_file
    from fpgapool.client.transfers.transfer import run_stream as run_stream

# The modules of the public names; an empty string is this package. A module is
# imported when a program first uses one of its names, so that each program
# pays only for what it uses.
_MODULES = {
    "Accelerator": "listing",
    "Block": "sessions.blocks",
    "CancelToken": "cancel",
    "Cancelled": "errors",
    "Chain": "chains.chain",
    "ChainReport": "chains.transfer",
    "ChecksumMismatch": "errors",
    "DryRun": "dryrun",
    "FpgapoolError": "errors",
    "FrontDoorUnavailable": "errors",
    "Group": "groups.group",
    "GroupReport": "transfers.grouped",
    "InvalidParams": "errors",
    "InvalidRequest": "errors",
    "OperationTimeout": "errors",
    "PoolApi": "doors.poolapi",
    "RequestRejected": "errors",
    "RunReport": "transfers.transfer",
    "Session": "sessions.session",
    "SessionClosed": "errors",
    "SessionFailed": "errors",
    "SessionSet": "sessions.together",
    "SessionView": "doors.view",
    "Statistics": "sessions.session",
    "TaskFailed": "errors",
    "TooManyOpenFiles": "errors",
    "WaitTimeout": "errors",
    "acc_close": "sessions.opening",
    "acc_dry_run": "dryrun",
    "acc_open": "sessions.opening",
    "acc_open_set": "sessions.together",
    "acc_run": "sessions.opening",
    "accelerators": "listing",
    "aio": "",
    "alignments": "",
    "arrays": "",
    "chain": "chains.chain",
    "errors": "",
    "group_open": "groups.group",
    "map": "background",
    "run_array": "arrays",
    "run_buffer": "transfers.transfer",
    "run_file": "transfers.transfer",
    "run_group_file": "transfers.grouped",
    "run_stream": "transfers.transfer",
    "submit": "background",
}

__all__ = list(_MODULES)

if not typing.TYPE_CHECKING:

    def __getattr__(name):
        """Import the module of a public name.

        :raises AttributeError: if there is no such name.
        """
        if name not in _MODULES:
            raise AttributeError(f"module {__name__} has no attribute {name}")
        if not _MODULES[name]:
            return importlib.import_module(f"{__name__}.{name}")
        module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
        value = globals()[name] = getattr(module, name)
        return value

    def __dir__():
        return sorted({*globals(), *__all__})
