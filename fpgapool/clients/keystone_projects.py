# SPDX-License-Identifier: Apache-2.0

"""Keystone: read where projects are below domains and other projects."""

from __future__ import annotations

from typing import Any
from typing import Self

from oslo_config import cfg

from fpgapool.clients import adapters
from fpgapool.common import exception
from fpgapool.conf import keystone as options

# With 1,000 projects on a page these are a million: more than any cloud has.
_MAX_PAGES = 1000


class Projects:
    """The projects in Keystone; the first call connects."""

    def __init__(self, adapter: Any, timeout_s: float) -> None:
        self._adapter = adapter
        self._timeout_s = timeout_s

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Return a client for the group ``[keystone]``.

        :raises ConfigurationError: if the group is invalid, or does not
            configure authentication.
        """
        options.OPTIONS.register_auth(conf)
        timeout_s = conf[options.GROUP].request_timeout_s
        adapter = adapters.load(
            conf,
            options.GROUP,
            timeout_s,
            min_version="3",
            max_version="3.latest",
        )
        if adapter is None:
            raise exception.ConfigurationError(
                reason="[conductor] share_tree = keystone requires auth_type"
                f" in [{options.GROUP}]"
            )
        return cls(adapter, timeout_s)

    def parents(self) -> dict[str, str]:
        """Return what each project is directly below: a project, or a domain.

        :raises KeystoneUnavailable: if there is no valid response.
        """
        from keystoneauth1 import exceptions

        try:
            return self._parents()
        except (
            exceptions.ClientException,
            # The cafile is unreadable.
            OSError,
            # The response is not JSON, or not of the expected shape.
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
        ) as error:
            raise exception.KeystoneUnavailable(
                reason=f"{type(error).__name__}: {error}"
            ) from error

    def _parents(self) -> dict[str, str]:
        found: dict[str, str] = {}
        path: str | None = "/projects"
        for _ in range(_MAX_PAGES):
            answer = self._adapter.get(path, timeout=self._timeout_s).json()
            for one in answer["projects"]:
                parent_id = one["parent_id"] or one["domain_id"]
                found[str(one["id"])] = str(parent_id)
            path = answer.get("links", {}).get("next")
            if path is None:
                if answer.get("truncated"):
                    raise ValueError(
                        "Keystone returned only some of the projects: raise"
                        " its [resource] list_limit"
                    )
                return found
        raise ValueError(f"there are more than {_MAX_PAGES} pages of projects")
