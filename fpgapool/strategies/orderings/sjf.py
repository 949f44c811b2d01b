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

"""Shortest job first."""

from fpgapool.core import model
from fpgapool.core import ordered
from fpgapool.strategies import base


class SjfOrdering(base.Ordering):
    """By claimed bytes, then arrival, then id."""

    def key(self, job: model.Job) -> ordered.Key:
        return (job.claimed_bytes, job.arrival_s, job.id)
