# SPDX-License-Identifier: Apache-2.0

"""When and how link protection asks for a cap, of a kernel made up here."""

from __future__ import annotations

import threading
import typing

import pytest
from oslo_config import cfg
from oslo_log import log as logging

from fpgapool import conf as fpgapool_conf
from fpgapool import privsep
from fpgapool.agent import settings as agent_settings
from fpgapool.agent.host import monitor
from fpgapool.agent.host import shaping
from fpgapool.common import exception
from fpgapool.vocabulary import codes
from tests.harness import waiting

ADDRESS = "192.0.2.7"
NETWORK = "192.0.2.0/24"
PORTS = range(30000, 30010)


class Kernel:
    def __init__(self, **differences: typing.Any) -> None:
        self.found: tuple[str, str] | None = ("eth0", NETWORK)
        self.outcome: dict[str, typing.Any] = {
            "outgoing": None,
            "incoming": None,
            "made": True,
        }
        self.error: Exception | None = None
        self.capped = False
        self.asked: list[tuple[typing.Any, ...]] = []
        self.event = threading.Event()
        for name, value in differences.items():
            setattr(self, name, value)

    def find_network(self, address: str) -> tuple[str, str] | None:
        assert address == ADDRESS
        return self.found

    def cap(self, *wish: typing.Any) -> dict[str, typing.Any]:
        self._ask("cap", *wish)
        return self.outcome

    def uncap(self) -> None:
        self._ask("uncap")

    def is_capped(self, device: str) -> bool:
        return self.capped

    def _ask(self, *question: typing.Any) -> None:
        self.asked.append(question)
        self.event.set()
        if self.error is not None:
            raise self.error


class Nic:
    def __init__(self, **members: typing.Any) -> None:
        self.reading = monitor.NicReading("eth0", 1e9, **members)


@pytest.fixture(autouse=True)
def all_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")


PERCENT = shaping.Share(PORTS, percent=25.0)
RATE = shaping.Share(PORTS, bytes_per_s=3e6)


def protection(
    kernel: Kernel,
    wish: shaping.Share | None = PERCENT,
    nic: Nic | None = None,
    **settings: typing.Any,
) -> shaping.LinkProtection:
    nic = nic or Nic()
    return shaping.LinkProtection(
        wish,
        kernel=kernel,
        reading=lambda: nic.reading,
        **{"data_address": ADDRESS, "device": None, **settings},
    )


def problem_codes(guard: shaping.LinkProtection) -> list[tuple[str, str]]:
    return [(one, two["code"]) for one, two in guard.state.problems.items()]


def both(code: str) -> list[tuple[str, str]]:
    return [("outgoing", code), ("incoming", code)]


@pytest.mark.parametrize(
    ("wish", "bytes_per_s"), [(PERCENT, 250_000_000), (RATE, 3_000_000)]
)
def test_the_wish_becomes_a_cap(wish, bytes_per_s, caplog):
    kernel = Kernel()
    guard = protection(kernel, wish)
    assert guard.check() == shaping.CHECK_INTERVAL_S
    assert kernel.asked == [("cap", "eth0", bytes_per_s, NETWORK, PORTS)]
    assert guard.state == shaping.LinkState("eth0", bytes_per_s)
    assert f"eth0 is capped at {bytes_per_s}" in caplog.text


def test_the_operators_device_is_taken():
    kernel = Kernel()
    guard = protection(kernel, device="bond0")
    guard.check()
    assert kernel.asked[0][1] == guard.state.device == "bond0"


def test_it_is_said_once_and_kept(caplog):
    kernel = Kernel()
    guard = protection(kernel)
    guard.check()
    kernel.outcome = {**kernel.outcome, "made": False}
    guard.check()
    assert len(kernel.asked) == 2
    assert caplog.text.count("capped at") == 1
    # Someone removed it: it was made again.
    kernel.outcome = {**kernel.outcome, "made": True}
    guard.check()
    assert caplog.text.count("capped at") == 2


def test_the_cap_follows_the_link():
    kernel = Kernel()
    nic = Nic()
    guard = protection(kernel, nic=nic)
    guard.check()
    nic.reading = monitor.NicReading("eth0", 4e9)
    guard.check()
    assert guard.state.bytes_per_s == 1_000_000_000


def test_an_assumed_rate_is_no_base_for_a_percentage(caplog):
    kernel = Kernel()
    guard = protection(kernel, nic=Nic(rate_known=False))
    guard.check()
    assert kernel.asked == []
    assert problem_codes(guard) == both(shaping.RATE_UNKNOWN)
    assert "nic_bytes_per_s" in caplog.text


def test_a_rate_does_not_need_to_know_the_links():
    kernel = Kernel()
    guard = protection(kernel, RATE, nic=Nic(rate_known=False))
    guard.check()
    assert guard.state.bytes_per_s == 3_000_000


def test_a_link_without_a_rate_keeps_its_cap():
    kernel = Kernel()
    nic = Nic()
    guard = protection(kernel, nic=nic)
    guard.check()
    nic.reading = monitor.NicReading("eth0", 1.25e9, rate_known=False)
    guard.check()
    assert guard.state == shaping.LinkState("eth0", 250_000_000)
    # What is known of one link says nothing of another.
    kernel.found = ("eth1", NETWORK)
    guard.check()
    assert problem_codes(guard) == both(shaping.RATE_UNKNOWN)


@pytest.mark.parametrize(
    ("kernel", "code"),
    [
        (Kernel(found=None), shaping.ADDRESS_MISSING),
        (Kernel(found=("lo", "127.0.0.0/8")), shaping.LOOPBACK),
    ],
)
def test_without_a_link_there_is_no_cap(kernel, code):
    guard = protection(kernel)
    assert guard.check() == shaping.CHECK_INTERVAL_S
    assert kernel.asked == []
    assert problem_codes(guard) == both(code)


def test_a_cap_that_lets_nothing_through_is_refused():
    kernel = Kernel()
    guard = protection(kernel, shaping.Share(PORTS, percent=0.001))
    guard.check()
    assert kernel.asked == []
    assert problem_codes(guard) == both(shaping.RATE_TOO_LOW)


def test_problems_are_put_into_words():
    problems = {
        "outgoing": {"code": "FOREIGN_QDISC", "message": "somebody's"},
        "incoming": {"code": "KERNEL_REFUSED", "message": "no"},
    }
    assert shaping.LinkState("eth0", 0, problems).message == (
        "outgoing: somebody's (FOREIGN_QDISC); incoming: no (KERNEL_REFUSED)"
    )
    assert shaping.LinkState("eth0", 1000).message is None
    assert shaping.LinkState().message is None


def test_half_a_cap_is_told_of_once(caplog):
    foreign = {"code": "FOREIGN_QDISC", "message": "eth0 has htb 1:"}
    kernel = Kernel()
    kernel.outcome = {"outgoing": foreign, "incoming": None, "made": False}
    guard = protection(kernel)
    guard.check()
    guard.check()
    assert problem_codes(guard) == [("outgoing", "FOREIGN_QDISC")]
    assert guard.state.bytes_per_s == 250_000_000
    assert caplog.text.count("outgoing: eth0 has htb 1: (FOREIGN_QDISC)") == 1


def test_without_privileges_the_rest_goes_on(caplog):
    kernel = Kernel(error=FileNotFoundError("sudo"))
    guard = protection(kernel)
    assert guard.check() == shaping.FAILURE_INTERVAL_S
    assert guard.check() == shaping.FAILURE_INTERVAL_S
    assert problem_codes(guard) == both(shaping.PRIVSEP_FAILED)
    assert caplog.text.count("sudo") == 2  # one for each direction
    kernel.error = None
    assert guard.check() == shaping.CHECK_INTERVAL_S
    assert not guard.state.problems


@pytest.mark.parametrize("remove", [False, True])
def test_the_thread_keeps_the_cap_and_may_remove_it(remove):
    kernel = Kernel()
    guard = protection(kernel, remove_at_stop=remove)
    guard.start(waiting.LIMIT_S)
    assert [one[0] for one in kernel.asked] == ["cap"]
    guard.stop(waiting.LIMIT_S)
    assert ([one[0] for one in kernel.asked] == ["cap", "uncap"]) is remove
    assert (guard.state == shaping.LinkState()) is remove


def test_a_cap_that_cannot_be_removed_is_told_of(caplog):
    kernel = Kernel(error=OSError("gone"))
    protection(kernel).remove()
    assert "Cannot remove the cap" in caplog.text


def test_what_an_earlier_agent_left_is_removed():
    kernel = Kernel(capped=True)
    guard = protection(kernel, None)
    guard.start()
    assert kernel.event.wait(waiting.LIMIT_S)
    guard.stop(waiting.LIMIT_S)
    assert kernel.asked == [("uncap",)]


@pytest.mark.parametrize(
    ("kernel", "settings"),
    [
        (Kernel(), {}),
        (Kernel(found=None, capped=True), {}),
        (Kernel(found=("lo", "127.0.0.0/8"), capped=True), {}),
        (Kernel(capped=True), {"data_address": None}),
    ],
)
def test_without_a_cap_nothing_is_asked_for(kernel, settings):
    protection(kernel, None, **settings).remove_left_over()
    assert kernel.asked == []


def test_an_unreadable_link_does_not_matter_without_a_wish(caplog):
    kernel = Kernel(capped=True, error=OSError("netlink says no"))
    protection(kernel, None).remove_left_over()
    assert "netlink says no" in caplog.text


def settings(**changes: typing.Any) -> agent_settings.AgentSettings:
    return agent_settings.AgentSettings(
        **{
            "host_uuid": "0e3d7a5e-5d8c-4b0f-8f43-0b2f4cf6a0a1",
            "host_name": "host1",
            "state_path": "/nowhere",
            "driver_name": "noop",
            "driver_path": "fpgapool.drivers.noop:NoopDriver",
            "data_address": ADDRESS,
            "data_ports": "30000-30009",
            **changes,
        }
    )


@pytest.mark.parametrize(
    ("changes", "wish"),
    [
        ({}, None),
        ({"data_ports": "0", "data_address": None}, None),
        ({"data_share_percent": 25.0}, PERCENT),
        ({"data_rate_bytes_per_s": 3e6}, RATE),
        (
            {"data_share_percent": 100.0, "data_ports": "7000"},
            shaping.Share(range(7000, 7001), percent=100.0),
        ),
    ],
)
def test_what_the_operator_wishes(changes, wish):
    assert agent_settings.data_share(settings(**changes)) == wish


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"data_rate_bytes_per_s": 1e6}, "data_share_percent"),
        ({"data_address": None}, "data_address"),
        ({"data_ports": "0"}, "data_ports"),
        ({"data_ports": "0-100"}, "data_ports"),
        ({"data_ports": "200-100"}, "data_ports"),
        ({"data_ports": "60000-70000"}, "data_ports"),
        (
            {
                "data_share_percent": 0.0,
                "data_rate_bytes_per_s": privsep.MIN_CAP_BYTES_PER_S - 1,
            },
            "data_rate_bytes_per_s",
        ),
        (
            {
                "data_share_percent": 0.0,
                "data_rate_bytes_per_s": privsep.MAX_CAP_BYTES_PER_S + 1,
            },
            "data_rate_bytes_per_s",
        ),
    ],
)
def test_wishes_that_make_no_sense_are_refused(changes, option):
    wrong = settings(**{"data_share_percent": 25.0, **changes})
    with pytest.raises(exception.ConfigurationError) as caught:
        agent_settings.data_share(wrong)
    assert caught.value.code == codes.INVALID_CONFIGURATION
    assert option in caught.value.message


def test_such_a_configuration_is_refused_at_once():
    conf = cfg.ConfigOpts()
    fpgapool_conf.register_opts(conf)
    logging.register_options(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    try:
        conf.set_override("driver", "noop", group="agent")
        wish = agent_settings.AgentSettings.from_conf(conf)
        assert agent_settings.data_share(wish) is None
        conf.set_override("data_share_percent", 60, group="agent")
        with pytest.raises(exception.ConfigurationError):
            agent_settings.AgentSettings.from_conf(conf)
    finally:
        # oslo.config keeps overrides with the options, which all
        # configurations of the process share.
        conf.clear_override("driver", group="agent")
        conf.clear_override("data_share_percent", group="agent")
