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

"""Options of the group [database].

They are oslo.db's, with defaults of ours; the sample configuration shows them
through oslo.db's own entry point.
"""

from oslo_config import cfg
from oslo_db import options

DEFAULT_CONNECTION = "sqlite:///$state_path/fpgapool.sqlite"


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    options.set_defaults(conf, connection=DEFAULT_CONNECTION)


def list_opts() -> dict[str, list[cfg.Opt]]:
    """Return nothing: these options are listed by oslo.db."""
    return {}
