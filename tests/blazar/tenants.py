# SPDX-License-Identifier: Apache-2.0

"""Someone who leases slots, and looks at them in the pool."""

from __future__ import annotations

import datetime
import functools
import typing
import uuid

from fpgapool_blazar import wishes
from tests.blazar import conftest
from tests.blazar import service
from tests.harness import waiting
from tests.services import openstack

EXAMPLE = openstack.ROOT / "doc" / "examples" / "blazar" / "lease.py"
#: Leases begin and end at whole minutes, and Blazar looks every 10 s.
MINUTES_LIMIT_S = 300.0


def at(minutes: int) -> str:
    """Return a time from now on, as Blazar's clients take it."""
    now = datetime.datetime.now(datetime.UTC)
    later = now + datetime.timedelta(minutes=minutes)
    return later.strftime("%Y-%m-%d %H:%M")


class Tenant:
    """A member of a project of its own, which may reserve slots."""

    def __init__(self, site: conftest.Site, name: str, quota: int) -> None:
        project = site.accounts.create_project(name)
        user = site.accounts.create_user(name, project, "member")
        self.project_id = project.id
        self._user_id = user.id
        self._token = site.accounts.token(user).text
        self._operator = site.accounts.token(site.accounts.admin()).text
        options = site.stack.keystone.auth_options(name, name)
        self._person = service.Person(options)
        self._api = site.api
        self._send = functools.partial(site.blazar.send, token=self._token)
        self.set_quota(quota)

    def set_quota(self, slots: int) -> None:
        """Let the project reserve so many slots."""
        answer = self._api.ask(
            "PUT",
            f"/v1/quotas/{self.project_id}",
            self._operator,
            {"quota": {"reservation_slots": slots}},
        )
        assert answer.status == 200, answer

    # Blazar.

    def _ask(self, method: str, path: str, body: object = None) -> typing.Any:
        return self._send(method, f"/v1{path}", body=body)

    def lease(
        self, amount: int, start: str, end: str, accelerator: str = "copy"
    ) -> service.Result:
        """Ask for a lease, by the example of the manual."""
        name = f"lease-{uuid.uuid4().hex[:8]}"
        return self._person.run(
            *("python", str(EXAMPLE), name, accelerator, str(amount)),
            *(start, end),
        )

    def leased(self, amount: int, start: str, end: str) -> str:
        """Make a lease; return its identifier."""
        done = self.lease(amount, start, end)
        assert done.status == 0, done
        return done.output.strip()

    def command(self, verb: str, *arguments: str) -> service.Result:
        """Run ``openstack reservation lease``."""
        return self._person.run(
            "openstack", "reservation", "lease", verb, *arguments
        )

    def lease_shown(self, lease_id: str) -> dict[str, typing.Any]:
        """Return what Blazar knows of a lease."""
        path = f"/leases/{lease_id}"
        shown: dict[str, typing.Any] = self._ask("GET", path)["lease"]
        return shown

    def await_lease(self, lease_id: str, status: str) -> None:
        """Wait until a lease has a status."""
        waiting.wait_until(
            lambda: self.lease_shown(lease_id)["status"] == status,
            lambda: f"{status}: {self.lease_shown(lease_id)}",
            MINUTES_LIMIT_S,
        )

    def leases(self) -> list[dict[str, typing.Any]]:
        """Return all leases of the project."""
        found: list[dict[str, typing.Any]] = self._ask("GET", "/leases")[
            "leases"
        ]
        return found

    def delete_all(self) -> None:
        """Delete all leases of the project.

        Blazar deletes none that it has half made.
        """
        for lease in self.leases():
            if lease["status"] != "CREATING":
                self._ask("DELETE", f"/leases/{lease['id']}")

    def create(self, *reservations: object) -> None:
        """Ask for a lease of several reservations, without a client.

        :raises RefusedError: if it is refused.
        """
        body = {
            "name": f"lease-{uuid.uuid4().hex[:8]}",
            "start_date": at(60),
            "end_date": at(120),
            "reservations": reservations,
        }
        self._ask("POST", "/leases", body=body)

    def lease_by_version_2(self, amount: int) -> None:
        """Ask for a lease by version 2 of Blazar's API.

        :raises RefusedError: if it is refused.
        """
        body = {
            "name": f"lease-{uuid.uuid4().hex[:8]}",
            "start_date": at(60),
            "end_date": at(120),
            "reservations": [
                {
                    "resource_type": wishes.RESOURCE_TYPE,
                    "accelerator": "copy",
                    "amount": str(amount),
                }
            ],
            # Version 1 takes it from the token.
            "user_id": self._user_id,
        }
        self._send("POST", "/v2/leases", body=body)

    def delete_by_version_2(self, lease_id: str) -> None:
        """Delete a lease by version 2 of Blazar's API."""
        self._send("DELETE", f"/v2/leases/{lease_id}")

    # The pool.

    def reservations(self) -> list[dict[str, typing.Any]]:
        """Return the project's reservations in the pool."""
        answer = self._api.ask("GET", "/v1/reservations", self._token)
        assert answer.status == 200, answer
        found: list[dict[str, typing.Any]] = answer.document["reservations"]
        return found

    def live(self) -> list[dict[str, typing.Any]]:
        """Return those that are not over."""
        return [one for one in self.reservations() if one["state"] != "ended"]

    def reserve(self, **members: object) -> None:
        """Make a reservation behind Blazar's back."""
        body = {"reservation": {"accelerator": "copy", **members}}
        path = "/v1/reservations"
        answer = self._api.ask("POST", path, self._token, body)
        assert answer.status == 201, answer

    def delete_reservation(self, reservation_id: str) -> None:
        """Delete a reservation behind Blazar's back."""
        path = f"/v1/reservations/{reservation_id}"
        assert self._api.ask("DELETE", path, self._token).status == 204

    def open(self) -> dict[str, typing.Any]:
        """Ask for a session."""
        return self._api.open(self._token).session

    def state(self, session: dict[str, typing.Any]) -> str:
        """Return a session's state."""
        shown = self._api.show(session["id"], self._token)
        return str(shown.session["state"])

    def wait(self, session: dict[str, typing.Any], state: str) -> None:
        """Wait until a session is in a state."""
        waiting.wait_until(
            lambda: self.state(session) == state,
            lambda: f"{state}; it is {self.state(session)}",
        )

    def waits_for(self, session: dict[str, typing.Any]) -> set[str]:
        """Return the codes of what a session waits for."""
        shown = self._api.show(session["id"], self._token).session
        return {one["code"] for one in shown["pending_reasons"]}

    def close(self, session: dict[str, typing.Any]) -> None:
        """Close a session."""
        self._api.close(session["id"], self._token)
