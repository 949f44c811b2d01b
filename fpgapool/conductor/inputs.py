#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""What can be put to the engine."""

from __future__ import annotations

import concurrent.futures
import dataclasses
from collections.abc import Callable
from typing import Any

from fpgapool import objects
from fpgapool.conductor import admission
from fpgapool.conductor import effects
from fpgapool.db import api as db_api


@dataclasses.dataclass(frozen=True, slots=True)
class Open:
    """A client wants an accelerator."""

    request: objects.OpenRequest


@dataclasses.dataclass(frozen=True, slots=True)
class Unrecorded:
    """An admitted session is not, and will not be, in the database.

    :param holder: the session that had its name long ago.
    """

    admission: effects.Admission
    holder: db_api.SessionRecord


@dataclasses.dataclass(frozen=True, slots=True)
class Cancel:
    """A session is wanted no more; named by one of its two names."""

    project_id: str
    session_id: str | None
    request_id: str | None
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Reopen:
    """A client has lost the slot of a session and wants another one.

    :param generation: of the assignment that it has lost.
    :param host_uuid: of its front door; empty for the API, which asks.
    """

    project_id: str
    session_id: str
    generation: int
    host_uuid: str


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """An agent's state."""

    report: objects.AgentReport


@dataclasses.dataclass(frozen=True, slots=True)
class Prepared:
    """A slot is ready for its client."""

    prepared: objects.Prepared


@dataclasses.dataclass(frozen=True, slots=True)
class RenewSecret:
    """The secret of a READY session did not reach its client."""

    session_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class Library:
    """The accelerators that the database holds now."""

    records: tuple[db_api.AcceleratorRecord, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class NewQuotas:
    """What projects may use from now on."""

    quotas: admission.Quotas


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
    """A question; the answer comes when what it rests on is durable.

    :param ask: called on the pump's thread with the engine.
    :param durable: False: the answer comes at once, and a failure of the
        database may make it wrong.
    """

    ask: Callable[[Any], Any]
    future: concurrent.futures.Future[Any]
    durable: bool = True


Input = (
    Open
    | Unrecorded
    | Cancel
    | Reopen
    | Report
    | Prepared
    | RenewSecret
    | Library
    | NewQuotas
    | Query
)
