# SPDX-License-Identifier: Apache-2.0

# What it imports is for others.
# ruff: noqa: F401

"""Versioned payloads that cross RPC or are in notifications."""

from fpgapool.objects.accelerator import AcceleratorProfile
from fpgapool.objects.base import Payload
from fpgapool.objects.bitstream import BitstreamRef
from fpgapool.objects.bitstream import CreateBitstream
from fpgapool.objects.bitstream import DecideBitstream
from fpgapool.objects.bitstream import DeleteBitstream
from fpgapool.objects.bitstream import ShareBitstream
from fpgapool.objects.bitstream import UpdateBitstream
from fpgapool.objects.bitstream import UploadBitstream
from fpgapool.objects.finding import Finding
from fpgapool.objects.group import AttachClient
from fpgapool.objects.group import ClientCounts
from fpgapool.objects.group import CreateGroup
from fpgapool.objects.group import DeleteGroup
from fpgapool.objects.group import Goal
from fpgapool.objects.group import GroupAccess
from fpgapool.objects.group import GroupHost
from fpgapool.objects.group import GroupMember
from fpgapool.objects.group import GroupOrder
from fpgapool.objects.group import GroupReport
from fpgapool.objects.group import GroupView
from fpgapool.objects.group import RevokeClient
from fpgapool.objects.group import SetGoal
from fpgapool.objects.group import UpdateGroup
from fpgapool.objects.instance import InstanceEntry
from fpgapool.objects.notification import DevicePayload
from fpgapool.objects.notification import GroupClientPayload
from fpgapool.objects.notification import GroupPayload
from fpgapool.objects.notification import HostPayload
from fpgapool.objects.notification import PlacePayload
from fpgapool.objects.notification import SessionPayload
from fpgapool.objects.notification import SlotPayload
from fpgapool.objects.report import AgentReport
from fpgapool.objects.report import DeviceReport
from fpgapool.objects.report import SlotReport
from fpgapool.objects.session import AssignRequest
from fpgapool.objects.session import DryRun
from fpgapool.objects.session import Endpoint
from fpgapool.objects.session import Offer
from fpgapool.objects.session import OpenRequest
from fpgapool.objects.session import Prepared
from fpgapool.objects.session import SessionResult
from fpgapool.objects.session import SessionView

#: All payloads and their base.
__all__ = [name for name in vars() if name[0].isupper()]
