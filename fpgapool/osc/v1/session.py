# SPDX-License-Identifier: Apache-2.0

"""Commands for sessions."""

from __future__ import annotations

import argparse
import time
import uuid
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from keystoneauth1 import exceptions as auth_exceptions
from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions
from osc_lib.cli import format_columns

from fpgapool.osc.sdk import session as sessions
from fpgapool.osc.v1 import base
from fpgapool.osc.v1 import columns
from fpgapool.osc.v1 import messages
from fpgapool.osc.v1 import names
from fpgapool.osc.v1 import projects
from fpgapool.osc.v1 import waiting
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import session as description
from fpgapool.vocabulary import states

_STATES = (*sorted(states.LIVE), *sorted(states.TERMINAL))
_METAVARS = {fields.SECONDS: {"metavar": "<seconds>"}}
# Sessions have no names, and the API does not return most options.
_HIDDEN = (
    "name",
    *(one.name for one in description.FIELDS.options if one.shown is None),
)


class _WithoutSecret(format_columns.DictColumn):
    """Shows how to connect, without the secret."""

    def __init__(self, value: dict[str, Any] | None) -> None:
        shown = dict(value or {})
        shown.pop("secret", None)
        super().__init__(shown)


_SHOW_SECRET = base.flag(
    "show-secret",
    "also show the secret, which permits one connection to a READY session;"
    " only members of the session's project can see it",
)


class ShowSession(base.ShowCommand):
    """Show a session."""

    kind = "session"
    described = description.FIELDS
    formatters = {
        "connection_info": _WithoutSecret,
        "pending_reasons": format_columns.ListDictColumn,
        "placement": format_columns.DictColumn,
    }
    hidden = _HIDDEN
    arguments: base.Arguments = (
        base.positional("session", "ID of the session"),
        _SHOW_SECRET,
    )

    def act(self, parsed_args: argparse.Namespace) -> sessions.Session:
        self._may_show_secret(parsed_args)
        return self.client.get_session(parsed_args.session)

    def _may_show_secret(self, parsed_args: argparse.Namespace) -> None:
        if parsed_args.show_secret:
            self.formatters = {
                **self.formatters,
                "connection_info": format_columns.DictColumn,
            }


class CreateSession(ShowSession):
    """Open a session: request a slot with an accelerator."""

    arguments = (
        base.positional("accelerator", "name of the accelerator", type=str),
        base.positional(
            "claimed_bytes",
            "size of the input in bytes; suffixes such as 1G and 1Gi "
            "are accepted",
            metavar="<bytes>",
            type=base.size_bytes,
        ),
        base.option(
            "request-id",
            "name that identifies the request; a request with the same name"
            " gets the same session",
        ),
        *(
            base.option(
                option.flag.removeprefix("--"),
                option.help,
                dest=option.name,
                type=option.kind.type,
                **_METAVARS.get(option.kind, {}),
            )
            for option in description.FIELDS.options
            if option.help
        ),
        base.flag(
            "wait",
            "wait until the session is READY; show the progress on standard"
            " error",
        ),
        base.flag(
            "dry-run",
            "do not open a session; show whether a slot is free now and, if"
            " not, why and the expected wait",
        ),
        _SHOW_SECRET,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        if parsed_args.dry_run:
            found = self.client.dry_run_session(**_wanted(parsed_args))
            found["reasons"] = format_columns.ListDictColumn(found["reasons"])
            return tuple(found), tuple(found.values())
        return super().take_action(parsed_args)

    def act(self, parsed_args: argparse.Namespace) -> sessions.Session:
        self._may_show_secret(parsed_args)
        session = self._create(parsed_args)
        return self._wait(session) if parsed_args.wait else session

    def _create(self, parsed_args: argparse.Namespace) -> sessions.Session:
        # Choose the ID here, so that the user can repeat the request.
        request_id = parsed_args.request_id or f"req-{uuid.uuid4()}"
        repeat = (
            f"; to repeat the request safely, add '--request-id {request_id}'"
        )
        try:
            return self.client.create_session(
                request_id=request_id, **_wanted(parsed_args)
            )
        except sdk_exceptions.HttpException as error:
            if (error.status_code or 500) < 500:
                raise
            text = messages.of_error(error)
            raise exceptions.CommandError(text + repeat) from error
        except auth_exceptions.ConnectionError as error:
            raise exceptions.CommandError(f"{error}{repeat}") from error

    def _wait(self, session: sessions.Session) -> sessions.Session:
        try:
            return waiting.until_ready(self.client, session, self.note)
        except KeyboardInterrupt:
            self.note(_what_goes_on(session))
            raise
        except sdk_exceptions.SDKException as error:
            text = f"{messages.of_error(error)}; {_what_goes_on(session)}"
            raise exceptions.CommandError(text) from error
        except auth_exceptions.ConnectionError as error:
            text = f"{error}; {_what_goes_on(session)}"
            raise exceptions.CommandError(text) from error


def _wanted(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """Return the attributes of the session that a command requests."""
    return {
        "accelerator": parsed_args.accelerator,
        "claimed_bytes": parsed_args.claimed_bytes,
        **base.given(
            **{
                option.name: getattr(parsed_args, option.name, None)
                for option in description.FIELDS.options
            }
        ),
    }


def _what_goes_on(session: sessions.Session) -> str:
    return (
        "the session continues without this command; 'openstack fpga session"
        f" close {session.id}' ends it"
    )


class CloseSession(base.EachCommand):
    """Cancel waiting sessions, and close running ones."""

    kind = "session"
    done = "closed"
    arguments = (base.positional("sessions", "ID of a session", nargs="+"),)

    def act(self, identifier: str, parsed_args: argparse.Namespace) -> None:
        self.client.close_session(identifier, ignore_missing=False)


class DeleteSession(CloseSession):
    """Cancel waiting sessions, and close running ones; same as close."""


# The order of states in lists; sessions that run come first.
_ORDER = (
    *(states.ACTIVE, states.DETACHED, states.READY, states.PREPARING),
    states.QUEUED,
)
# Options that ask for certain sessions, whether they live or not.
_CERTAIN = ("states", "request_id", "changes_since")
# Options that may leave nothing of a list.
_NARROWING = (
    *_CERTAIN,
    *("accelerator", "host", "user", "instance", "marker"),
)


def _place(one: sessions.Session) -> str:
    """Return the name of a session's slot; empty if it has none."""
    # Services of earlier releases do not send it in lists.
    found = one.placement
    return (
        names.slot_name(found["host_name"], found["device"], found["slot"])
        if found
        else ""
    )


def _duration(one: sessions.Session, now_s: float) -> columns.Seconds:
    """Return how long it has waited, or had its slot."""
    ends_s = base.instant(one.finished_at)
    begins_s = base.instant(one.ready_at)
    if begins_s is None or one.state in (states.QUEUED, states.PREPARING):
        begins_s = base.instant(one.queued_at)
    if begins_s is None:
        return columns.Seconds(None)
    return columns.Seconds(
        max((now_s if ends_s is None else ends_s) - begins_s, 0.0)
    )


def _reason(one: sessions.Session) -> Any:
    """Return why a session waits, or the code of its end."""
    return one.reason or columns.Sentences(one.pending_reasons)


class ListSessions(base.ListCommand):
    """List sessions: those that run, then those that wait in their order."""

    described = description.FIELDS
    method = "sessions"
    filters = ("accelerator", "request_id", "changes_since")
    formatters = {"pending_reasons": columns.Sentences}
    derived = {
        "Time": lambda one: _duration(one, time.time()),
        "Slot": _place,
        "Why": _reason,
    }
    table = {
        "id": "ID",
        "accelerator": "Accelerator",
        "state": "State",
        "Time": "Time",
        "claimed_bytes": "Size",
        "Slot": "Slot",
        "Why": "Reason",
    }
    added = ("Time", "Slot")
    arguments = (
        base.flag(
            "all",
            "also list sessions that have ended, newest first",
        ),
        base.option(
            "state",
            f"list only sessions in this state ({', '.join(_STATES)}; repeat"
            " the option for several)",
            metavar="<state>",
            dest="states",
            action="append",
            type=str.upper,
            choices=_STATES,
        ),
        base.option("accelerator", "list only sessions with this accelerator"),
        base.option(
            "request-id", "list only the session with this request ID"
        ),
        base.of_host_option("sessions whose client is on"),
        *projects.user(
            "list only sessions that this user has opened (name or ID; for"
            " programs on hosts of the pool, the number of the system user)"
        ),
        base.option(
            "instance",
            "list only sessions that this instance has opened (ID, or name of"
            " an instance with a token)",
        ),
        base.option(
            "changes-since",
            "list only sessions that changed at this time or later (ISO 8601,"
            " such as 2026-03-01T12:00:00; UTC by default)",
            metavar="<time>",
            type=base.time_text,
        ),
        base.ALL_PROJECTS,
        *projects.one(
            "list only sessions of this project (name or ID, admin only)"
        ),
    )

    def query(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        found = super().query(parsed_args) | self.of_host(parsed_args.host)
        found |= projects.query(self, parsed_args)
        if parsed_args.user:
            found["user_id"] = projects.find_user_id(
                self.connection, parsed_args.user, parsed_args.user_domain
            )
        if parsed_args.instance:
            found["instance_id"] = names.find(
                self.client, "instance", parsed_args.instance
            )
        # The API requires all_projects in order to filter by project.
        all_projects = "project_id" in found or parsed_args.all_projects
        wanted = parsed_args.states
        if _only_live(parsed_args):
            wanted = list(_ORDER)
        return found | base.given(state=wanted, all_projects=all_projects)

    def empty(self, parsed_args: argparse.Namespace) -> str:
        names.check_accelerator(self.client, parsed_args.accelerator)
        only_live, project = _only_live(parsed_args), parsed_args.project
        said = "no live sessions" if only_live else "no sessions"
        more = ["--all shows ended ones"] * only_live
        if project:
            said += f" of project {project}"
        elif not parsed_args.all_projects:
            said += " of your project"
            more += ["--all-projects those of others"]
        if any(getattr(parsed_args, name) for name in _NARROWING):
            said += " match the options"
        return "; ".join([said, ", ".join(more)] if more else [said])

    def members(
        self, parsed_args: argparse.Namespace, query: Mapping[str, Any]
    ) -> Iterable[sessions.Session]:
        found = super().members(parsed_args, query)
        chosen = parsed_args.sort or parsed_args.limit or parsed_args.marker
        if chosen or not _only_live(parsed_args):
            return found
        # Newest first, as the service lists them; sorting is stable.
        oldest_first = list(found)[::-1]
        return sorted(oldest_first, key=_rank)


def _rank(one: sessions.Session) -> int:
    # Later releases may have more states.
    return _ORDER.index(one.state) if one.state in _ORDER else len(_ORDER)


def _only_live(parsed_args: argparse.Namespace) -> bool:
    return not parsed_args.all and not any(
        getattr(parsed_args, name) for name in _CERTAIN
    )
