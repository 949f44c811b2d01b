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

from oslo_config import cfg

from fpgapool.conf import keystone_auth

#: How the API asks Glance, if that is the store of bitstreams.
GROUP = "glance"

# Of keystoneauth's options.
_DEFAULTS = {"service_type": "image"}


def list_auth_opts() -> list[cfg.Opt]:
    """Return the options that keystoneauth registers when it is used."""
    return keystone_auth.listed(_DEFAULTS)
