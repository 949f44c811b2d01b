# SPDX-License-Identifier: Apache-2.0

"""Options of the group [glance], which are keystoneauth's."""

from oslo_config import cfg

from fpgapool.conf import keystone_auth

#: Options to ask Glance, if that is the store of bitstreams.
GROUP = "glance"

# Defaults of keystoneauth's options.
_DEFAULTS = {"service_type": "image"}


def list_auth_opts() -> list[cfg.Opt]:
    """Return the options that keystoneauth registers when it is used."""
    return keystone_auth.listed(_DEFAULTS)
