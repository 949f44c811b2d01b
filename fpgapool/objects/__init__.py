# SPDX-License-Identifier: Apache-2.0

"""Versioned payloads of RPC messages and notifications."""

from fpgapool.objects.accelerator import (
    AcceleratorProfile as AcceleratorProfile,
)
from fpgapool.objects.base import Payload as Payload
from fpgapool.objects.bitstream import BitstreamRef as BitstreamRef
from fpgapool.objects.bitstream import CreateBitstream as CreateBitstream
from fpgapool.objects.bitstream import DecideBitstream as DecideBitstream
from fpgapool.objects.bitstream import DeleteBitstream as DeleteBitstream
from fpgapool.objects.bitstream import ShareBitstream as ShareBitstream
from fpgapool.objects.bitstream import UpdateBitstream as UpdateBitstream
from fpgapool.objects.bitstream import UploadBitstream as UploadBitstream
from fpgapool.objects.finding import Finding as Finding
from fpgapool.objects.group import AttachClient as AttachClient
from fpgapool.objects.group import ClientCounts as ClientCounts
from fpgapool.objects.group import CreateGroup as CreateGroup
from fpgapool.objects.group import DeleteGroup as DeleteGroup
from fpgapool.objects.group import Goal as Goal
from fpgapool.objects.group import GroupAccess as GroupAccess
from fpgapool.objects.group import GroupHost as GroupHost
from fpgapool.objects.group import GroupMember as GroupMember
from fpgapool.objects.group import GroupOrder as GroupOrder
from fpgapool.objects.group import GroupReport as GroupReport
from fpgapool.objects.group import GroupView as GroupView
from fpgapool.objects.group import RevokeClient as RevokeClient
from fpgapool.objects.group import SetGoal as SetGoal
from fpgapool.objects.group import UpdateGroup as UpdateGroup
from fpgapool.objects.group import hosts_from as hosts_from
from fpgapool.objects.instance import InstanceEntry as InstanceEntry
from fpgapool.objects.notification import BudgetPayload as BudgetPayload
from fpgapool.objects.notification import DevicePayload as DevicePayload
from fpgapool.objects.notification import (
    GroupClientPayload as GroupClientPayload,
)
from fpgapool.objects.notification import GroupPayload as GroupPayload
from fpgapool.objects.notification import HostPayload as HostPayload
from fpgapool.objects.notification import PlacePayload as PlacePayload
from fpgapool.objects.notification import (
    ReservationPayload as ReservationPayload,
)
from fpgapool.objects.notification import SessionPayload as SessionPayload
from fpgapool.objects.notification import SlotPayload as SlotPayload
from fpgapool.objects.report import AgentReport as AgentReport
from fpgapool.objects.report import DeviceReport as DeviceReport
from fpgapool.objects.report import SlotReport as SlotReport
from fpgapool.objects.session import AssignRequest as AssignRequest
from fpgapool.objects.session import DryRun as DryRun
from fpgapool.objects.session import Endpoint as Endpoint
from fpgapool.objects.session import Offer as Offer
from fpgapool.objects.session import OpenRequest as OpenRequest
from fpgapool.objects.session import Prepared as Prepared
from fpgapool.objects.session import SessionEnd as SessionEnd
from fpgapool.objects.session import SessionResult as SessionResult
from fpgapool.objects.session import SessionView as SessionView
