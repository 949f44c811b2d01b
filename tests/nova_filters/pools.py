# SPDX-License-Identifier: Apache-2.0

"""Snapshots of pools, and requests to the scheduler."""

from __future__ import annotations

import copy
import types
import typing
from collections.abc import Mapping

from nova import objects

from fpgapool_nova_filters import snapshot


def host_document(
    *,
    up: bool = True,
    nic_load: float = 0.0,
    queued: int = 0,
    total: int | None = None,
    **accelerators: tuple[int, int],
) -> dict[str, typing.Any]:
    """Return a host as the API describes it.

    :param total: how many slots; None means as many as are usable.
    :param accelerators: usable and free slots of each.
    """
    usable = max((found[0] for found in accelerators.values()), default=0)
    free = max((found[1] for found in accelerators.values()), default=0)
    return {
        "name": "any",
        "up": up,
        "nic_bytes_per_s": 1.25e9,
        "nic_load": nic_load,
        "queued": queued,
        "slots": {
            "total": usable if total is None else total,
            "usable": usable,
            "free": free,
        },
        "accelerators": {
            name: {"usable": found[0], "free": found[1]}
            for name, found in accelerators.items()
        },
    }


def document(**hosts: Mapping[str, typing.Any]) -> dict[str, typing.Any]:
    """Return an answer of the API.

    :param hosts: what :func:`host_document` returned, by UUID.
    """
    return {
        "snapshot": {
            "generated_at": "2026-11-22T06:00:00Z",
            "generation": 1,
            "hosts": copy.deepcopy(hosts),
            "queued": {},
        }
    }


def host(**members: typing.Any) -> snapshot.Host:
    """Return a host as filter and weigher see it."""
    (parsed,) = snapshot.parse(document(it=host_document(**members))).values()
    return parsed


def request(
    extra_specs: Mapping[str, str] | None = None, *, rebuild: bool = False
) -> objects.RequestSpec:
    """Return what the scheduler is asked for.

    :param rebuild: of an instance that stays where it is.
    """
    hints = {"_nova_check_type": ["rebuild"]} if rebuild else {}
    return objects.RequestSpec(
        instance_uuid="2bd1a0f4-0001-4000-8000-000000000000",
        flavor=objects.Flavor(name="any", extra_specs=dict(extra_specs or {})),
        scheduler_hints=hints,
    )


def state(uuid: str) -> typing.Any:
    """Return what the scheduler knows of a host."""
    return types.SimpleNamespace(
        uuid=uuid, host=f"host-{uuid}", nodename=uuid, aggregates=[]
    )


class Source:
    """What is asked for snapshots, in the place of the API.

    :param answer: a snapshot, or what is raised.
    """

    def __init__(self, answer: typing.Any) -> None:
        self.answer = answer
        self.count = 0

    def __call__(self) -> dict[str, snapshot.Host]:
        """Answer."""
        self.count += 1
        if isinstance(self.answer, BaseException):
            raise self.answer
        return snapshot.parse(self.answer)


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s
