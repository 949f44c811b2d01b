# SPDX-License-Identifier: Apache-2.0

"""Enable, drain and disable hosts and boards: actions, form and view."""

from __future__ import annotations

from typing import Any
from typing import NamedTuple

from django.http import Http404
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from horizon import exceptions
from horizon import forms
from horizon import messages
from horizon import tables

from fpgapool.vocabulary import states
from fpgapool_dashboard.content import lists

#: What the API accepts.
_REASON_LENGTH = 255
_LONGEST_S = 366 * 86400


class _Words(NamedTuple):
    """What users read of a change."""

    label: Any
    help: Any
    done: Any


_WORDS = {
    states.ENABLED: _Words(
        _("Enable"),
        _("Its slots are given to sessions again."),
        _("%s is enabled."),
    ),
    states.DRAINING: _Words(
        _("Drain"),
        _(
            "New sessions get no slot here. When the last session has ended,"
            " the hardware is disabled. After the deadline, if there is one,"
            " the remaining sessions lose their slots; those with stateless"
            " accelerators continue in other slots."
        ),
        _("%s is being drained."),
    ),
    states.DISABLED: _Words(
        _("Disable"),
        _("New sessions get no slot here; those that run keep theirs."),
        _("%s is disabled."),
    ),
}

ADMIN_STATES = (
    (states.ENABLED, _("Enabled")),
    (states.DRAINING, _("Draining")),
    (states.DISABLED, _("Disabled")),
)


def actions(
    address: str, policy_rules: tuple[tuple[str, str], ...]
) -> tuple[type[tables.LinkAction], ...]:
    """Return the actions of a row, for each state that it may get.

    :param address: name of the form's address, whose arguments are the row's
        id and the new state.
    """
    return tuple(
        type(
            f"Set{state.title()}",
            (_SetState,),
            {
                "name": state,
                "verbose_name": _WORDS[state].label,
                "url": address,
                "policy_rules": policy_rules,
            },
        )
        for state in (states.DRAINING, states.ENABLED, states.DISABLED)
    )


class _SetState(tables.LinkAction):
    classes = ("ajax-modal",)

    def get_link_url(self, one: Any) -> str:
        return reverse(self.url, args=(one.id, self.name))

    def allowed(self, request: Any, one: Any = None) -> bool:
        if one is None or one.admin_state == self.name:
            return False
        # What is disabled has nothing to drain.
        return self.name != states.DRAINING or (
            one.admin_state == states.ENABLED
        )


class StateForm(forms.SelfHandlingForm):
    """Asks for the reason, and to drain also for a deadline."""

    reason = forms.CharField(
        label=_("Reason"), max_length=_REASON_LENGTH, required=False
    )
    drain_deadline_s = forms.FloatField(
        label=_("Deadline in Seconds"),
        min_value=0,
        max_value=_LONGEST_S,
        required=False,
        help_text=_("By default, sessions may stay until they end."),
    )

    def __init__(self, request: Any, *args: Any, **kwargs: Any) -> None:
        self._view = kwargs.pop("view")
        super().__init__(request, *args, **kwargs)
        if self._view.state != states.DRAINING:
            del self.fields["drain_deadline_s"]

    def handle(self, request: Any, data: dict[str, Any]) -> bool:
        """Ask the API for the change; False, and a message, if it fails."""
        change = {k: v for k, v in data.items() if v not in ("", None)}
        try:
            changed = self._view.administer(
                request, self._view.object_id, state=self._view.state, **change
            )
        except lists.ERRORS:
            exceptions.handle(request, _("Unable to change the state."))
            return False
        done = _WORDS[self._view.state].done
        messages.success(request, done % changed.name)
        return True


class StateView(forms.ModalFormView):
    """The form for a host or a board and its new state."""

    form_class = StateForm
    template_name = "fpgapool_dashboard/state.html"
    modal_id = form_id = "fpga_state"
    #: The function of the API, and the names of the two addresses.
    administer: Any = None
    address = ""
    index = ""

    @property
    def state(self) -> str:
        found: str = self.kwargs["state"]
        if found not in _WORDS:
            raise Http404
        return found

    @property
    def object_id(self) -> str:
        return str(self.kwargs["object_id"])

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), "view": self}

    def get_success_url(self) -> str:
        return reverse(self.index)

    get_cancel_url = get_success_url

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        words = _WORDS[self.state]
        return {
            **super().get_context_data(**kwargs),
            "page_title": words.label,
            "modal_header": words.label,
            "submit_label": words.label,
            "submit_url": reverse(
                self.address, args=(self.object_id, self.state)
            ),
            "help": words.help,
        }


class HardwareTable(tables.DataTable):
    """The columns that hosts and boards share."""

    slots = tables.Column("slots", verbose_name=_("Slots"))
    sessions = tables.Column("sessions", verbose_name=_("Sessions"))
    admin_state = tables.Column(
        "admin_state",
        verbose_name=_("Admin State"),
        status=True,
        status_choices=(
            (states.ENABLED, True),
            (states.DISABLED, False),
        ),
        display_choices=ADMIN_STATES,
    )
    admin_reason = tables.Column(
        lambda one: one.admin_reason or None, verbose_name=_("Reason")
    )
    deadline = tables.Column(
        "drain_deadline_at",
        verbose_name=_("Drain Deadline"),
        filters=(lists.moment,),
    )
