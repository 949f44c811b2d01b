# SPDX-License-Identifier: Apache-2.0

"""Commands for sessions."""

from __future__ import annotations

import argparse
import contextlib
import uuid
from typing import Any

from keystoneauth1 import exceptions as auth_exceptions
from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions
from osc_lib.cli import format_columns

from fpgapool.osc.sdk import session as sessions
from fpgapool.osc.v1 import base
from fpgapool.osc.v1 import messages
from fpgapool.osc.v1 import projects
from fpgapool.osc.v1 import waiting
from fpgapool.vocabulary import fields
from fpgapool.vocabulary import session as description
from fpgapool.vocabulary import states

_STATES = (*sorted(states.LIVE), *sorted(states.TERMINAL))
# Sessions have no names, and most options are not answered.
_HIDDEN = (
    "name",
    *(one.name for one in description.FIELDS.options if one.shown is None),
)


class _WithoutSecret(format_columns.DictColumn):
    """How to connect, without what allows it."""

    def __init__(self, value: dict[str, Any] | None) -> None:
        shown = dict(value or {})
        shown.pop("secret", None)
        super().__init__(shown)


def _shown(session: sessions.Session, show_secret: bool) -> base.Table:
    formatters = {
        "connection_info": (
            format_columns.DictColumn if show_secret else _WithoutSecret
        ),
        "pending_reasons": format_columns.ListDictColumn,
        "placement": format_columns.DictColumn,
    }
    return base.shown(session, formatters, _HIDDEN)


_SHOW_SECRET = base.flag(
    "show-secret",
    "also show the secret, which allows one connection to a READY session;"
    " only members of its project get it",
)


class CreateSession(base.ShowCommand):
    """Open a session: ask for a slot with an accelerator."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command's parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "accelerator",
            metavar="<accelerator>",
            help="name of the accelerator",
        )
        parser.add_argument(
            "claimed_bytes",
            metavar="<bytes>",
            type=base.size_bytes,
            help="size of the input in bytes; 1G and 1Gi are understood",
        )
        parser.add_argument(
            "--request-id",
            metavar="<request-id>",
            help="your name for the request; a request with the same name gets"
            " the same session",
        )
        for option in description.FIELDS.options:
            if option.help:
                name = option.name.removesuffix("_s").replace("_", "-")
                is_time = option.kind is fields.SECONDS
                parser.add_argument(
                    f"--{name}",
                    dest=option.name,
                    metavar="<seconds>" if is_time else f"<{name}>",
                    type=option.kind.type,
                    help=option.help,
                )
        parser.add_argument(
            "--wait",
            action="store_true",
            help="wait until the session is READY; show the progress on"
            " standard error",
        )
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="only show whether the session would get a slot now, when"
            " about, and why not",
        )
        _SHOW_SECRET.add_to(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Open it."""
        if parsed_args.dry_run:
            found = self.client.dry_run_session(**_wanted(parsed_args))
            found["reasons"] = format_columns.ListDictColumn(found["reasons"])
            return tuple(found), tuple(found.values())
        session = self._create(parsed_args)
        if parsed_args.wait:
            session = self._wait(session)
        return _shown(session, parsed_args.show_secret)

    def _create(self, parsed_args: argparse.Namespace) -> sessions.Session:
        # Named here, so that the request can be repeated.
        request_id = parsed_args.request_id or str(uuid.uuid4())
        repeat = (
            f"; with '--request-id {request_id}' the request can be repeated"
            " safely"
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
            return waiting.until_ready(self.client, session, self._say)
        except KeyboardInterrupt:
            self._say(_what_goes_on(session))
            raise
        except sdk_exceptions.SDKException as error:
            text = f"{messages.of_error(error)}; {_what_goes_on(session)}"
            raise exceptions.CommandError(text) from error
        except auth_exceptions.ConnectionError as error:
            text = f"{error}; {_what_goes_on(session)}"
            raise exceptions.CommandError(text) from error

    def _say(self, text: str) -> None:
        # Nothing depends on a reader.
        with contextlib.suppress(AttributeError, OSError):
            self.app.stderr.write(f"{text}\n")
            self.app.stderr.flush()


def _wanted(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """Return the attributes of the session that a command asks for."""
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


class CloseSession(base.Command):
    """Cancel waiting sessions, and close running ones."""

    arguments = (base.positional("sessions", "ID of a session", nargs="+"),)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Close them, also if one cannot be closed."""
        base.do_each(
            parsed_args.sessions,
            self.client.close_session,
            "session",
            "closed",
        )


class DeleteSession(CloseSession):
    """Cancel waiting sessions, and close running ones, as close does."""


class ListSessions(base.ListCommand):
    """List sessions, newest first."""

    described = description.FIELDS
    method = "sessions"
    filters = ("accelerator", "request_id", "host_uuid", "changes_since")
    arguments = (
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
        base.option("request-id", "list only the session of this request"),
        base.option(
            "host",
            "list only sessions whose client is on this host (UUID)",
            metavar="<uuid>",
            dest="host_uuid",
        ),
        base.option(
            "changes-since",
            "list only sessions that changed at this time or later (ISO 8601,"
            " such as 2026-03-01T12:00:00; UTC by default)",
            metavar="<time>",
        ),
        base.ALL_PROJECTS,
        *projects.one(
            "list only sessions of this project (name or ID, admin only)"
        ),
    )

    def query(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """Return the filters that were given."""
        found = super().query(parsed_args)
        found |= projects.query(self, parsed_args)
        # The API requires it for another project.
        all_projects = "project_id" in found or parsed_args.all_projects
        return found | base.given(
            state=parsed_args.states, all_projects=all_projects
        )


class ShowSession(base.ShowCommand):
    """Show a session."""

    arguments = (
        base.positional("session", "ID of the session"),
        _SHOW_SECRET,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        """Show it."""
        found = self.client.get_session(parsed_args.session)
        return _shown(found, parsed_args.show_secret)
