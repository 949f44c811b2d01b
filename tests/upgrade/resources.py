# SPDX-License-Identifier: Apache-2.0

"""What releases made, and each later step must leave as it is."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import typing
from collections.abc import Mapping

from fpgapool.bitstreams import signatures
from fpgapool.vocabulary import states
from tests.chaos import grouptasks
from tests.chaos import jobs
from tests.chaos import pool as chaos_pool
from tests.harness import waiting
from tests.upgrade import pool as pools

_LIMITS = {"sessions": 3, "queued": 17, "bitstream_bytes": 4_000_000}
_REASON = "kept for the end"
_SEALED = "sealed"
_DRAFT = "draft"
_KEPT_GROUP = "kept-group"
_SET_GROUP = "set-group"
_FAILED_GROUP = "failed-group"
#: How many slots come at the same time.
_FIRST_SLOTS = 2


@dataclasses.dataclass(frozen=True)
class Kept:
    """A resource, and its members that must not change.

    :ivar kind: the only member of the answer.
    """

    path: str
    kind: str
    members: Mapping[str, typing.Any]


class Resources:
    """Made once, by an operator and two projects."""

    def __init__(self, pool: pools.Pool) -> None:
        self._pool = pool
        self._people = pool.people
        self._kept: list[Kept] = []
        self._usage: dict[str, float] = {}
        #: The ids of groups that clients use, by their names.
        self.groups: dict[str, str] = {}
        self._waiting: list[str] = []
        self._all_or_none: dict[str, str] = {}

    def _ask(
        self,
        method: str,
        path: str,
        body: typing.Any = None,
        token: str = "",
    ) -> typing.Any:
        # Answers of the old release need not fit the present schemas.
        answer = self._pool.api.ask(
            method, path, token or self._people.admin_token, body, check=False
        )
        assert answer.status < 300, (method, path, answer)
        return answer.document

    def _keep(self, path: str, kind: str, *names: str) -> None:
        found = self._ask("GET", path)[kind]
        self._kept.append(Kept(path, kind, {one: found[one] for one in names}))

    def make(self) -> None:
        """Make all of it, with what runs now."""
        self._make_quota()
        self._make_drain()
        for name in jobs.TENANT_BITSTREAMS:
            self._bring(chaos_pool.declaration_of(name), "medium")
        self._bring(
            chaos_pool.declaration_of(jobs.PACED, jobs.PACED_BYTES_PER_S),
            "medium",
        )
        for name, shape in ((_SEALED, pools.SHELF_SHAPE), (_DRAFT, "medium")):
            declared = {
                **chaos_pool.declaration_of(jobs.PACED),
                "name": name,
            }
            self._bring(declared, shape, approved=name != _DRAFT)
        for name, accelerator in grouptasks.GROUPS.items():
            self.groups[name] = self._make_group(name, accelerator)
        self._make_group(_KEPT_GROUP, "copy", most=1)
        self._make_waiting()

    def make_sets(self) -> None:
        """Make groups whose first slots come all at once, or never.

        Only the present release can. The old one takes them for ordinary
        groups, without a word, and must keep what the present one has noted.
        """
        for name, state, members in (
            (
                _SET_GROUP,
                states.GROUP_ACTIVE,
                {
                    "accelerator": "copy",
                    "size": _FIRST_SLOTS,
                    "min_size": _FIRST_SLOTS,
                    "max_size": _FIRST_SLOTS,
                },
            ),
            (
                _FAILED_GROUP,
                states.GROUP_FAILED,
                # The shelf's board is out of use.
                {"accelerator": _SEALED, "size": 1, "wait_timeout_s": 1},
            ),
        ):
            wanted = {"name": name, "all_or_none": True, **members}
            answer = self._ask(
                "POST", "/v1/groups", {"group": wanted}, self._people.token
            )
            path = f"/v1/groups/{answer['group']['id']}"
            self._all_or_none[name] = path
            self._await_group(path, state)
            self._keep(
                path,
                "group",
                *("name", "accelerator", "project_id"),
                *("size", "min_size", "max_size"),
            )

    def _await_group(self, path: str, state: str) -> None:
        def found() -> typing.Any:
            return self._ask("GET", path)["group"]

        waiting.wait_until(
            lambda: found()["state"] == state,
            lambda: f"{state}: {found()}",
        )

    def end_sets(self) -> list[str]:
        """End those groups, with the present release.

        :returns: what is wrong.
        """
        shown = {
            name: self._ask("GET", path)["group"]
            for name, path in self._all_or_none.items()
        }
        self._await_group(self._all_or_none[_SET_GROUP], states.GROUP_ACTIVE)
        for path in self._all_or_none.values():
            self._ask("DELETE", path)
        return [
            f"{name} is no more all or none: {group}"
            for name, group in shown.items()
            if not group["all_or_none"]
        ]

    def _make_quota(self) -> None:
        path = f"/v1/quotas/{self._people.other_project_id}"
        self._ask("PUT", path, {"quota": _LIMITS})
        found = self._ask("GET", path)["quota"]
        self._kept.append(
            Kept(
                path,
                "quota",
                {
                    name: {
                        one: found[name][one] for one in ("limit", "source")
                    }
                    for name in found
                    if name not in ("project_id", "links")
                },
            )
        )

    def _shelf_id(self) -> str:
        found = self._ask("GET", "/v1/devices")["devices"]
        (device,) = [one for one in found if one["host_name"] == pools.SHELF]
        return str(device["id"])

    def _make_drain(self) -> None:
        path = f"/v1/devices/{self._shelf_id()}"
        self._ask("PATCH", path, {"state": "draining", "reason": _REASON})
        waiting.wait_until(
            lambda: self._ask("GET", path)["device"]["state"] == "disabled",
            "the shelf's board is empty",
        )
        self._keep(
            path, "device", "state", "admin_state", "admin_reason", "host_name"
        )

    def _bring(
        self,
        declaration: dict[str, typing.Any],
        shape: str,
        *,
        approved: bool = True,
    ) -> None:
        checksum = hashlib.sha256(json.dumps(declaration).encode())
        bitstream_id = self._pool.api.bring(
            declaration,
            token=self._people.token,
            approver=self._people.admin_token if approved else "",
            shapes=[shape],
            signature=signatures.sign(
                self._pool.signer.private_pem, checksum.hexdigest()
            ),
        )
        self._keep(
            f"/v1/bitstreams/{bitstream_id}",
            "bitstream",
            *("accelerator", "version", "state", "shapes", "project_id"),
            *("checksum_sha256", "size_bytes", "signed_by"),
        )

    def _make_group(
        self, name: str, accelerator: str, most: int = grouptasks.MOST_MEMBERS
    ) -> str:
        wanted = {
            "name": name,
            "accelerator": accelerator,
            "size": grouptasks.LEAST_MEMBERS,
            "min_size": grouptasks.LEAST_MEMBERS,
            "max_size": most,
        }
        answer = self._ask(
            "POST", "/v1/groups", {"group": wanted}, self._people.token
        )
        path = f"/v1/groups/{answer['group']['id']}"
        names = ["name", "accelerator", "min_size", "max_size", "project_id"]
        if most == grouptasks.LEAST_MEMBERS:
            names.append("size")
        self._keep(path, "group", *names)
        return str(answer["group"]["id"])

    def _make_waiting(self) -> None:
        """Open sessions that wait for the shelf's board, in this order."""
        for number in range(3):
            body = {
                "session": {
                    "accelerator": _SEALED,
                    # Nobody is chosen to follow one that takes so long.
                    "claimed_bytes": 10**9 + number,
                    "application": f"application-{number}",
                }
            }
            answer = self._ask(
                "POST", "/v1/sessions", body, self._people.token
            )
            path = f"/v1/sessions/{answer['session']['id']}"
            self._waiting.append(path)
            self._keep(
                path,
                "session",
                *("state", "accelerator", "application", "project_id"),
                "claimed_bytes",
            )

    def differences(self) -> list[str]:
        """Compare all of it with what it was."""
        found = []
        for kept in self._kept:
            now = self._ask("GET", kept.path)[kept.kind]
            found += [
                f"{kept.path}: {name} is {now.get(name)}, and was {value}"
                for name, value in kept.members.items()
                if not _same(value, now.get(name))
            ]
        return [*found, *self._usage_differences()]

    def _usage_differences(self) -> list[str]:
        path = "/v1/usage?all_projects=true&group_by=project"
        (row,) = [
            one
            for one in self._ask("GET", path)["usage"]
            if one["project_id"] == self._people.project_id
        ] or [{}]
        now = {
            name: value
            for name, value in row.items()
            if isinstance(value, int | float)
        }
        before, self._usage = self._usage, now
        return [
            f"usage: {name} is {now.get(name)}, and was {value}"
            for name, value in before.items()
            if now.get(name, 0) < value
        ]

    def _state(self, session_path: str) -> str:
        return str(self._ask("GET", session_path)["session"]["state"])

    @property
    def usage(self) -> Mapping[str, float]:
        """What the project had used when it was asked last."""
        return self._usage

    def end(self) -> list[str]:
        """Have the waiting sessions served, in their order, and end groups.

        :returns: what is wrong.
        """
        path = f"/v1/devices/{self._shelf_id()}"
        self._ask("PATCH", path, {"state": "enabled"})
        problems = []
        paths = [*self._waiting]
        for number, session_path in enumerate(paths, start=1):
            waiting.wait_until(
                lambda path=session_path: self._state(path) == "READY",
                lambda path=session_path: f"{path} is {self._state(path)}",
            )
            early = [
                one for one in paths[number:] if self._state(one) != "QUEUED"
            ]
            if early:
                problems.append(f"{early} came before {session_path}")
            self._ask("DELETE", session_path)
        for group in self._ask("GET", "/v1/groups?all_projects=true")[
            "groups"
        ]:
            self._ask("DELETE", f"/v1/groups/{group['id']}")
        waiting.wait_until(
            lambda: (
                not self._ask("GET", "/v1/groups?all_projects=true")["groups"]
            ),
            "no groups",
        )
        return problems


def _same(before: typing.Any, now: typing.Any) -> bool:
    """Tell whether nothing that was there is different."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        return all(
            _same(value, now.get(name)) for name, value in before.items()
        )
    return bool(before == now)
