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

"""Options of the group [glance], which are keystoneauth's."""

import copy

from oslo_config import cfg

#: How the API asks Glance, if that is the store of bitstreams.
GROUP = "glance"


def list_auth_opts() -> list[cfg.Opt]:
    """Return the options that keystoneauth registers when it is used."""
    # Takes a while, and nobody but the generator needs it.
    from keystoneauth1 import loading

    found = [
        *loading.get_auth_common_conf_options(),
        *loading.get_session_conf_options(),
        *loading.get_adapter_conf_options(include_deprecated=False),
        *loading.get_auth_plugin_conf_options("v3password"),
    ]
    options = {option.dest: copy.copy(option) for option in found}
    options["service_type"].default = "image"
    return list(options.values())
