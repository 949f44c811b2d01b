# SPDX-License-Identifier: Apache-2.0

"""What all modules do: connect, compare, and change what differs."""

from __future__ import annotations

import contextlib
import dataclasses
import traceback
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from ansible.module_utils import basic

MISSING: str | None = None
try:
    import openstack
    from openstack import exceptions as sdk_exceptions
    from osc_lib import exceptions

    from fpgapool.osc.sdk import fpgapool_service
    from fpgapool.osc.sdk import proxy
    from fpgapool.osc.v1 import names
except ImportError:
    MISSING = traceback.format_exc()

CONNECTION = {"cloud": {"type": "str"}, "region_name": {"type": "str"}}
STATE = {
    "type": "str",
    "choices": ["present", "absent"],
    "default": "present",
}


@dataclasses.dataclass(frozen=True)
class Change:
    """What a module found, and what is wanted instead.

    :ivar apply: makes it so.
    """

    before: Mapping[str, Any]
    after: Mapping[str, Any]
    apply: Callable[[], object]


def pool(cloud: openstack.connection.Connection) -> proxy.Proxy:
    """Return the pool's API."""
    return fpgapool_service.proxy_of(cloud)


def find(client: proxy.Proxy, kind: str, text: str) -> str:
    """Return the identifier of what a name or an identifier means."""
    return names.find(client, kind, text)


def run(
    arguments: Mapping[str, Any],
    compare: Callable[[Any, Mapping[str, Any]], Change],
    **rules: Any,
) -> None:
    """Run a module.

    :param compare: gets the connection and the parameters.
    :param rules: of AnsibleModule, about the arguments.
    """
    module = basic.AnsibleModule(
        argument_spec={**CONNECTION, **arguments},
        supports_check_mode=True,
        **rules,
    )
    if MISSING is not None:
        module.fail_json(
            msg=basic.missing_required_lib("fpgapool[cli]"), exception=MISSING
        )
    try:
        change = _changed(module, compare)
    except (
        sdk_exceptions.SDKException,
        exceptions.CommandError,
    ) as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=change.before != change.after,
        diff={"before": change.before, "after": change.after},
        **change.after,
    )


def _changed(
    module: basic.AnsibleModule, compare: Callable[..., Change]
) -> Change:
    where = {name: module.params[name] for name in CONNECTION}
    with contextlib.closing(openstack.connect(**where)) as cloud:
        change = compare(cloud, module.params)
        if change.before != change.after and not module.check_mode:
            change.apply()
    return change
