# SPDX-License-Identifier: Apache-2.0

"""Make the pool known to Keystone: python3 ks.py user|service|endpoints.

The environment has the administrator's OS_..., and what jobs.yaml sets.
Whatever is there already is corrected.
"""

import os
import sys

import openstack

ENV = os.environ
DOMAIN = {"domain_id": "default"}
identity = openstack.connect().identity


def user():
    project = identity.find_project(
        ENV["SERVICE_PROJECT"], **DOMAIN
    ) or identity.create_project(name=ENV["SERVICE_PROJECT"], **DOMAIN)
    found = identity.find_user(ENV["SERVICE_USER"], **DOMAIN)
    if found is None:
        found = identity.create_user(
            name=ENV["SERVICE_USER"],
            password=ENV["SERVICE_PASSWORD"],
            **DOMAIN,
        )
    else:
        identity.update_user(found, password=ENV["SERVICE_PASSWORD"])
    wanted = dict.fromkeys(ENV["SERVICE_ROLES"].split(), found)
    # Those by which others may use the pool.
    wanted |= {"fpgapool:agent": None, "fpgapool:vendordata": None}
    if ENV["NOVA_USER"]:
        wanted["fpgapool:vendordata"] = identity.find_user(
            ENV["NOVA_USER"], ignore_missing=False, **DOMAIN
        )
    for name, holder in wanted.items():
        role = identity.find_role(name) or identity.create_role(name=name)
        if holder is not None:
            identity.assign_project_role_to_user(project, holder, role)


def service():
    if identity.find_service("fpgapool") is None:
        identity.create_service(
            name="fpgapool",
            type="fpgapool",
            description="Pool of FPGA accelerators",
        )


def endpoints():
    found = identity.find_service("fpgapool", ignore_missing=False)
    for interface in ("public", "internal"):
        url = ENV[f"{interface.upper()}_URL"]
        place = {"interface": interface, "region_id": ENV["OS_REGION_NAME"]}
        known = list(identity.endpoints(service_id=found.id, **place))
        for endpoint in known:
            identity.update_endpoint(endpoint, url=url)
        if not known:
            identity.create_endpoint(service_id=found.id, url=url, **place)


{"user": user, "service": service, "endpoints": endpoints}[sys.argv[1]]()
