# SPDX-License-Identifier: Apache-2.0

"""The conductor's RPC endpoint: handlers queue inputs, and return."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import fractions
import re
import threading
import time
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import TypeVar

import oslo_messaging as messaging

from fpgapool import objects
from fpgapool.common import exception
from fpgapool.common.messaging import rpc
from fpgapool.common.monitoring import ratelimit
from fpgapool.conductor.calls import checks
from fpgapool.conductor.calls import waiting
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.decisions import limits
from fpgapool.conductor.decisions.hardware import administration
from fpgapool.conductor.decisions.hardware import reservations
from fpgapool.conductor.decisions.requests import admission
from fpgapool.conductor.decisions.requests import instances
from fpgapool.conductor.decisions.requests import quotas
from fpgapool.conductor.decisions.views import audit
from fpgapool.conductor.runtime import dry_runs
from fpgapool.conductor.runtime import pump
from fpgapool.db import api as db_api
from fpgapool.db import inventory
from fpgapool.objects import bitstream
from fpgapool.objects import finding as findings
from fpgapool.objects import group
from fpgapool.rpcapi import conductor as conductor_rpcapi
from fpgapool.vocabulary import codes
from fpgapool.vocabulary import rules
from fpgapool.vocabulary import states

LOG = ratelimit.RateLimitedLog(__name__)

_Answer = TypeVar("_Answer")

# Shorter than callers wait, so that they get the reason: the first for one of
# several tries, the second for calls that are sent only once.
_ANSWER_S = 3.0
_CHANGE_S = 5.0

# Calls that wait for an answer occupy threads. The others are for the agents'
# messages, while the database does not answer.
_ASKING_SHARE = fractions.Fraction(3, 4)
# Questions and the agents' messages do not wait for each other.
_MIN_THREADS = 4

# An agent that is asked for a report sends it at once.
_REPORTS_S = 2.0

# As long as its column.
_CODE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")


def places(threads: int) -> int:
    """Return how many calls may wait for an answer at the same time.

    :param threads: how many messages are handled at the same time.
    :raises ConfigurationError: if none would be left for casts.
    """
    if threads < _MIN_THREADS:
        raise exception.ConfigurationError(
            reason=f"[DEFAULT] executor_thread_pool_size is {threads}; the"
            f" conductor needs {_MIN_THREADS} at least"
        )
    return int(threads * _ASKING_SHARE)


class ConductorManager(rpc.Endpoint):
    """See :class:`fpgapool.rpcapi.conductor.ConductorAPI` for the calls.

    A malformed payload is logged and dropped where it is a cast, and
    answered with ``INVALID_REQUEST`` where it is a call.

    :param pumping: takes inputs and questions.
    :param database: for rows that have left the engine's memory.
    :param epoch: in which this conductor leads.
    :param max_asking: how many calls may wait for an answer at the same time.
    :param signer: returns the name of the key with which a bitstream is
        signed, for its signature and SHA-256; None: callers have done so.
    """

    CASTS = frozenset(
        {
            "cancel_session",
            "close_session",
            "prepared",
            "report",
            "report_progress",
        }
    )

    OF_HOSTS = CASTS | {
        "attach_client",
        "changed_sessions",
        "detach_client",
        "dry_run",
        "find_groups",
        "list_accelerators",
        "pool_summary",
        "reopen_session",
        "submit_sessions",
        rpc.SEVERAL,
    }

    target = messaging.Target(version=conductor_rpcapi.VERSION)

    def __init__(
        self,
        pumping: pump.Pump,
        database: db_api.Database,
        epoch: int,
        max_asking: int = 48,
        signer: Callable[[str, str, str], str] | None = None,
    ) -> None:
        self._pump = pumping
        self._database = database
        self._epoch = epoch
        self._signer = signer
        self._places = waiting.Places(pumping, max_asking)
        self._dry_runs = dry_runs.DryRuns()
        # The form and value of each host's last report.
        self._reports: dict[str, tuple[Any, objects.AgentReport]] = {}
        self._reported = threading.Condition()

    # -- casts -------------------------------------------------------------

    def report(self, ctxt: Any, report: Any) -> None:
        """Take an agent's state."""
        parsed = checks.report(report, self._reports)
        if (
            parsed is not None
            and checks.is_of_sender(ctxt, parsed.host_uuid, "report")
            and not conductor_rpcapi.is_outdated(
                parsed.leader_epoch, self._epoch
            )
        ):
            self._pump.offer(parsed)
            with self._reported:
                self._reports[parsed.host_uuid] = report, parsed
                self._reported.notify_all()

    def prepared(self, ctxt: Any, prepared: Any) -> None:
        """Take the news that a slot is ready for its client."""
        parsed = checks.parsed(objects.Prepared.from_primitive, prepared)
        if parsed is not None and checks.is_of_sender(
            ctxt, parsed.host_uuid, "prepared"
        ):
            self._pump.offer(parsed)

    def cancel_session(
        self,
        ctxt: Any,
        project_id: Any,
        session_id: Any = None,
        request_id: Any = None,
        reason: Any = "",
    ) -> None:
        """Take a session, waiting or not, out of the pool."""
        # Slots are revoked for a reason: without one they would be kept.
        reason = reason or codes.CANCELLED_BY_CLIENT
        names = (project_id, session_id or "", request_id or "", reason)
        if not all(isinstance(name, str) for name in names) or (
            not _CODE.fullmatch(reason)
        ):
            LOG.warning("Malformed cancellation dropped")
            return
        self._pump.offer(
            inputs.Cancel(
                project_id,
                session_id,
                request_id,
                reason,
                rpc.host_of(ctxt),
            ),
            project_id,
        )

    def close_session(
        self,
        ctxt: Any,
        project_id: Any,
        session_id: Any,
        generation: Any,
        input_bytes: Any,
        output_bytes: Any,
        confirmed: Any,
    ) -> None:
        """Let a session end as served, if its worker cannot say so."""
        names = project_id, session_id
        if not all(isinstance(name, str) for name in names) or not all(
            rules.is_int(number) and 0 <= number <= rules.MAX_SIZE_BYTES
            for number in (generation, input_bytes, output_bytes)
        ):
            LOG.warning("Malformed close dropped")
            return
        self._pump.offer(
            inputs.Close(
                project_id,
                session_id,
                generation,
                input_bytes,
                output_bytes,
                confirmed is True,
                rpc.host_of(ctxt),
            ),
            project_id,
        )

    def report_progress(
        self, ctxt: Any, project_id: Any, session_id: Any, input_bytes: Any
    ) -> None:
        """Note how far a waiting session's client has computed itself."""
        names = (project_id, session_id)
        if not all(isinstance(name, str) for name in names) or not (
            rules.is_int(input_bytes) and 0 <= input_bytes < 2**63
        ):
            LOG.warning("Malformed progress dropped")
            return
        self._pump.offer(
            inputs.ClientProgress(
                project_id, session_id, input_bytes, rpc.host_of(ctxt)
            ),
            project_id,
        )

    def renew_secret(self, ctxt: Any, session_id: Any) -> None:
        """Ask for a fresh secret of a READY session."""
        if isinstance(session_id, str):
            self._pump.offer(inputs.RenewSecret(session_id))

    # -- calls -------------------------------------------------------------

    @messaging.expected_exceptions(exception.FpgapoolException)
    def submit_sessions(
        self, ctxt: Any, requests: Any
    ) -> list[dict[str, Any]]:
        """Admit requests; return the session of each, or why it has none."""
        until = self._pump.now() + _ANSWER_S
        wishes = [
            inputs.Open(request, until, concurrent.futures.Future())
            for request in checks.requests(ctxt, requests)
        ]
        return [view.to_primitive() for view in self._answers(wishes) if view]

    @messaging.expected_exceptions(exception.FpgapoolException)
    def dry_run(self, ctxt: Any, request: Any) -> dict[str, Any]:
        """Return what would become of a request, and change nothing."""
        (parsed,) = checks.requests(ctxt, [request], "dry_run")
        with (
            self._places.take(),
            self._dry_runs.turn(parsed.project_id) as count,
        ):

            def prepared(asked: Any) -> Callable[[], objects.DryRun]:
                with count():
                    return asked.dry_run(parsed)

            found = self._ask(prepared, durable=False)
            with count():
                return found().to_primitive()

    @messaging.expected_exceptions(exception.FpgapoolException)
    def reopen_session(
        self,
        ctxt: Any,
        project_id: Any,
        session_id: Any,
        generation: Any,
        host_uuid: Any,
    ) -> dict[str, Any] | None:
        """Give a session that has lost its slot another one, if possible."""
        checks.require(str, project_id=project_id, session_id=session_id)
        checks.require(str, host_uuid=host_uuid)
        checks.require(int, generation=generation)
        checks.require_own(ctxt, host_uuid, "reopen_session")
        wish = inputs.Reopen(
            project_id,
            session_id,
            generation,
            host_uuid,
            concurrent.futures.Future(),
        )
        (view,) = self._answers([wish])
        return view.to_primitive() if view else None

    def _answers(
        self, wishes: Sequence[inputs.Open | inputs.Reopen]
    ) -> list[objects.SessionView | None]:
        """Return the results of requests from clients of projects.

        :raises DatabaseUnavailable: if not all are recorded in time.
        """
        until_s = time.monotonic() + _ANSWER_S
        with self._places.take():
            try:
                for wish in wishes:
                    self._offer(wish, wish.project_id)
                return [
                    waiting.durable(wish.future, until_s - time.monotonic())
                    for wish in wishes
                ]
            finally:
                # The results of the others are sent as news.
                for wish in wishes:
                    wish.future.cancel()

    @messaging.expected_exceptions(exception.FpgapoolException)
    def session_now(
        self, ctxt: Any, session_id: Any, project_id: Any
    ) -> dict[str, Any] | None:
        """Return how a session stands, with its secret for its project."""
        checks.require(str, session_id=session_id, project_id=project_id)
        view = self._ask(lambda asked: asked.session(session_id, project_id))
        return view and view.to_primitive()

    @messaging.expected_exceptions(exception.FpgapoolException)
    def changed_sessions(
        self, ctxt: Any, revisions: Any, host_uuid: Any = ""
    ) -> dict[str, Any]:
        """Return which sessions have other revisions, or do not exist."""
        if (
            not isinstance(revisions, dict)
            or len(revisions) > checks.MAX_IDS
            or any(
                type(revision) is not int for revision in revisions.values()
            )
        ):
            raise exception.InvalidRequest(
                reason="revisions must be whole numbers of at most"
                f" {checks.MAX_IDS} sessions"
            )
        checks.require(str, host_uuid=host_uuid)
        if host_uuid:
            checks.require_own(ctxt, host_uuid, "changed_sessions")
        changed, missing = self._ask(
            lambda asked: asked.changed(revisions, host_uuid)
        )
        changed += self._forgotten(missing)
        found = {view.session_id for view in changed}
        return {
            "changed": [view.to_primitive() for view in changed],
            "unknown": [name for name in missing if name not in found],
        }

    def _forgotten(self, session_ids: list[str]) -> list[objects.SessionView]:
        """Return those sessions that the engine has forgotten."""
        # The database cannot even be queried for the others.
        names = [name for name in session_ids if limits.writable(name) == name]
        if not names:
            return []
        return [
            objects.SessionView.of(record)
            for record in self._database.sessions_by_ids(names)
        ]

    @messaging.expected_exceptions(exception.FpgapoolException)
    def admit_instance(
        self, ctxt: Any, entry: Any, lost_hash: Any = ""
    ) -> dict[str, Any]:
        """Admit an instance, and return its entry after that."""
        try:
            parsed = objects.InstanceEntry.from_primitive(entry)
            limits.check(parsed)
            instances.check_entry(parsed)
        except ValueError as error:
            raise exception.InvalidRequest(reason=str(error)) from error
        known = self._database.get_instance(parsed.instance_id)
        if known is not None and known.deleted_at is not None:
            # A second row of the same name would hold up all others.
            raise exception.InstanceNotFound(instance_id=known.instance_id)
        with self._places.take():
            self._offer(inputs.AdmitInstance(parsed))
            if lost_hash:
                self._offer(
                    inputs.ReplaceToken(
                        parsed.instance_id,
                        str(lost_hash),
                        parsed.token_nonce,
                        parsed.token_hash,
                    )
                )
            return self._instance(parsed.instance_id).to_primitive()

    @messaging.expected_exceptions(exception.FpgapoolException)
    def revoke_instance_token(self, ctxt: Any, instance_id: Any) -> None:
        """Revoke an instance's token for good."""
        checks.require(str, instance_id=instance_id)
        with self._places.take():
            self._offer(inputs.RevokeInstance(instance_id))
            self._instance(instance_id)

    def _instance(self, instance_id: str) -> objects.InstanceEntry:
        """Return an instance's entry when it is durable."""
        found = self._ask(
            lambda asked: asked.pool.instances.live.get(instance_id)
        )
        if found is None:
            raise exception.InstanceNotFound(instance_id=instance_id[:80])
        return instances.entry_of(found)

    @messaging.expected_exceptions(exception.FpgapoolException)
    def list_accelerators(self, ctxt: Any) -> list[dict[str, Any]]:
        """Return the library."""
        profiles = self._ask(lambda asked: list(asked.pool.profiles.values()))
        return [profile.to_primitive() for profile in profiles]

    @messaging.expected_exceptions(exception.FpgapoolException)
    def change_bitstream(self, ctxt: Any, change: Any) -> None:
        """Change the library; answers when that is durable."""
        parsed = checks.checked(bitstream.change_from_primitive, change)
        try:
            with self._places.take():
                self._pump.change_bitstream(self._signed(parsed), _CHANGE_S)
        except admission.Rejected as error:
            raise exception.BitstreamRefused(
                str(error), code=error.code
            ) from error
        except TimeoutError:
            raise exception.DatabaseUnavailable(
                reason="no durable answer at the moment"
            ) from None

    def _signed(
        self, change: bitstream.BitstreamChange
    ) -> bitstream.BitstreamChange:
        """Return a change that names the key that we have verified.

        :raises BitstreamRefused: if the bitstream is not signed as required.
        """
        if self._signer is None or not isinstance(
            change, objects.UploadBitstream | objects.DecideBitstream
        ):
            return change
        if isinstance(change, objects.DecideBitstream) and not change.approve:
            return change
        record = self._database.get_bitstream(change.bitstream_id)
        if record is None:
            # The library reports the fault.
            return dataclasses.replace(change, signed_by="")
        checksum = (
            change.checksum_sha256
            if isinstance(change, objects.UploadBitstream)
            else record.checksum_sha256
        )
        signed_by = self._signer(record.signature, checksum, record.format)
        return dataclasses.replace(change, signed_by=signed_by)

    @messaging.expected_exceptions(exception.FpgapoolException)
    def change_group(self, ctxt: Any, change: Any) -> None:
        """Change a group or its clients; answers when that is durable."""
        self._change_group(checks.checked(group.change_from_primitive, change))

    def _change_group(self, change: group.GroupChange) -> None:
        try:
            self._change(
                inputs.ChangeGroup(change, concurrent.futures.Future())
            )
        except admission.Rejected as error:
            raise exception.GroupRefused(
                str(error), code=error.code
            ) from error

    @messaging.expected_exceptions(exception.FpgapoolException)
    def get_groups(self, ctxt: Any, group_ids: Any) -> list[dict[str, Any]]:
        """Return the groups that exist."""
        if not isinstance(group_ids, list) or len(group_ids) > checks.MAX_IDS:
            raise exception.InvalidRequest(
                reason=f"group_ids must be a list of at most {checks.MAX_IDS}"
            )
        for group_id in group_ids:
            checks.require(str, group_id=group_id)
        views = self._ask(lambda asked: asked.groups(group_ids))
        return [view.to_primitive() for view in views]

    @messaging.expected_exceptions(exception.FpgapoolException)
    def find_groups(
        self, ctxt: Any, project_id: Any, name: Any
    ) -> list[dict[str, Any]]:
        """Return the groups that a project may use and calls so."""
        checks.require(str, project_id=project_id, name=name)
        views = self._ask(lambda asked: asked.groups_named(project_id, name))
        return [view.to_primitive() for view in views]

    @messaging.expected_exceptions(exception.FpgapoolException)
    def attach_client(self, ctxt: Any, client: Any) -> None:
        """Attach a client of a front door to a group."""
        self._change_group(checks.client_of_host(ctxt, client))

    @messaging.expected_exceptions(exception.FpgapoolException)
    def detach_client(
        self, ctxt: Any, project_id: Any, group_id: Any, client_id: Any
    ) -> None:
        """End a client of a front door, for its program."""
        checks.require(str, project_id=project_id, group_id=group_id)
        checks.require(str, client_id=client_id)
        if not self._ask(
            lambda asked: asked.has_client(project_id, group_id, client_id)
        ):
            raise exception.GroupRefused(
                "the project has no such client",
                code=codes.GROUP_CLIENT_NOT_FOUND,
            )
        self._change_group(
            objects.RevokeClient(
                group_id=group_id, client_id=client_id, ended=True
            )
        )

    @messaging.expected_exceptions(exception.FpgapoolException)
    def pool_summary(self, ctxt: Any) -> dict[str, Any]:
        """Return figures about the pool, and its hardware from the rows."""
        now = self._ask(lambda asked: asked.now())
        pool = inventory.Inventory.load(self._database)
        return {
            "strategy": now["strategy"],
            "waiting": now["sessions"].get(states.QUEUED, 0),
            "sessions": now["sessions"],
            "hosts": pool.summary(frozenset(now["unusable_slots"])),
        }

    @messaging.expected_exceptions(exception.FpgapoolException)
    def pool_now(self, ctxt: Any) -> dict[str, Any]:
        """Return the figures about the pool that no row has."""
        found: dict[str, Any] = self._ask(
            lambda asked: asked.now(), durable=False
        )
        return found

    @messaging.expected_exceptions(exception.FpgapoolException)
    def administer(
        self,
        ctxt: Any,
        host_uuid: Any,
        device: Any,
        state: Any,
        reason: Any,
        drain_within_s: Any,
    ) -> None:
        """Enable, drain or disable; answers when that is durable."""
        wish = administration.checked(
            host_uuid, device, state, reason, drain_within_s
        )
        with self._places.take():
            self._offer(wish)
            found = waiting.durable(wish.future, _CHANGE_S)
        if found:
            return
        if device is None:
            raise exception.HostNotFound(host_uuid=host_uuid)
        raise exception.DeviceNotFound(device=device, host_uuid=host_uuid)

    @messaging.expected_exceptions(exception.FpgapoolException)
    def set_reservable_slots(
        self, ctxt: Any, host_uuid: Any, device: Any, slots: Any
    ) -> None:
        """Let instances reserve slots; answers when that is durable."""
        wish = reservations.checked(host_uuid, device, slots)
        self._change(wish)

    @messaging.expected_exceptions(exception.FpgapoolException)
    def test_slot(
        self,
        ctxt: Any,
        host_uuid: Any,
        device: Any,
        slot: Any,
        accelerator: Any,
    ) -> None:
        """Have a slot tested; answers when the test has been ordered."""
        checks.require(
            str, host_uuid=host_uuid, device=device, accelerator=accelerator
        )
        checks.require(int, slot=slot)
        wish = inputs.TestNow(
            host_uuid=host_uuid,
            device=device,
            slot=slot,
            accelerator=accelerator,
            future=concurrent.futures.Future(),
        )
        self._change(wish)

    @messaging.expected_exceptions(exception.FpgapoolException)
    def get_quota(
        self, ctxt: Any, project_id: Any = None
    ) -> dict[str, dict[str, Any]]:
        """Return the limits in force of a project, or the default ones."""
        if project_id is not None:
            checks.check_project(project_id)
        return quotas.document(
            self._ask(lambda asked: asked.pool.quotas.of(project_id))
        )

    @messaging.expected_exceptions(exception.FpgapoolException)
    def set_quota(self, ctxt: Any, project_id: Any, limits: Any) -> None:
        """Set a project's limits; answers when that is durable."""
        checks.check_project(project_id)
        try:
            checked = quotas.check_limits(limits)
        except ValueError as error:
            raise exception.InvalidRequest(reason=str(error)) from error
        if not self._ask(lambda asked: asked.pool.quotas.kept_here):
            raise exception.QuotasInKeystone()
        with self._places.take():
            self._offer(inputs.SetQuota(project_id, checked))
            # The answer comes when its rows are on the disk.
            self._ask(lambda asked: None)

    @messaging.expected_exceptions(exception.FpgapoolException)
    def audit(self, ctxt: Any) -> list[dict[str, Any]]:
        """Return where database, this leader and the agents disagree."""
        reports = self._fresh_reports()
        memory: audit.Memory = self._ask(
            lambda asked: audit.remember(asked, self._epoch, reports)
        )
        now = self._database.now()
        holdings = self._database.holdings(now - audit.GONE_S)
        found = audit.against_database(holdings, memory)
        return [one.to_primitive() for one in found]

    def _fresh_reports(self) -> dict[str, objects.AgentReport]:
        """Ask all agents, and return the reports that come in time."""
        with self._reported:
            self._reports.clear()
        asked = self._ask(lambda asked: asked.ask_reports(), durable=False)
        with self._reported:
            self._reported.wait_for(
                lambda: asked <= self._reports.keys(), _REPORTS_S
            )
            return {host: one for host, (_, one) in self._reports.items()}

    @messaging.expected_exceptions(exception.FpgapoolException)
    def repair(self, ctxt: Any, finding: Any) -> bool:
        """Repair an inconsistency that an audit has found, if that is safe."""
        wanted = checks.checked(findings.Finding.from_primitive, finding)
        if wanted.kind == findings.SESSION_UNKNOWN:
            record = self._database.get_session(wanted.session_id or "")
            if record is None:
                return False
            self._ask(lambda asked: asked.adopt(record))
        elif wanted.kind in findings.RECORDABLE:
            self._ask(
                lambda asked: asked.record_again(
                    wanted.session_id, wanted.slot_id
                )
            )
        elif wanted.kind in findings.RECONCILABLE:
            # The agents' reports are compared, and repaired, as always.
            self._ask(
                lambda asked: asked.ask_reports(wanted.host_uuid),
                durable=False,
            )
        else:
            return False
        return True

    def _change(
        self, wish: inputs.SetReservable | inputs.TestNow | inputs.ChangeGroup
    ) -> None:
        """Carry out a request; returns when that is durable.

        :raises: the reason of a refusal.
        """
        with self._places.take():
            self._offer(wish)
            refusal = waiting.durable(wish.future, _CHANGE_S)
        if refusal is not None:
            raise refusal

    def _offer(
        self, item: inputs.Input, project_id: str | None = None
    ) -> None:
        """Queue an input that a caller waits for.

        :raises Overloaded: if there is no room.
        """
        if not self._pump.offer(item, project_id):
            raise exception.Overloaded(reason="too many requests wait")

    def _ask(
        self, question: Callable[[Any], Any], *, durable: bool = True
    ) -> Any:
        # A question that needs no database is answered at once.
        place = self._places.take() if durable else contextlib.nullcontext()
        with place:
            try:
                return self._pump.ask(question, _ANSWER_S, durable=durable)
            except TimeoutError:
                raise waiting.not_durable() from None
