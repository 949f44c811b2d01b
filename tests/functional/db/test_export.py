# SPDX-License-Identifier: Apache-2.0

"""``fpgapool-manage session export``: from rows to what advise reads."""

import dataclasses
import random
import uuid

import pytest

from fpgapool.cmd import manage
from fpgapool.cmd import sim
from fpgapool.db import api
from fpgapool.sim.experiments import advising
from fpgapool.sim.inputs import scenario_files
from fpgapool.vocabulary import states
from tests.functional.db import factory

#: The profile of aes is faster.
BYTES_PER_S = 1e8


def served(id_: int, queued_at: float, **members) -> api.SessionRecord:
    """Return a session that waited a second and worked at that rate."""
    size_bytes = members.pop("size_bytes", 100_000_000)
    values = {
        "claimed_bytes": size_bytes,
        "input_bytes": size_bytes,
        "output_bytes": size_bytes // 2,
        "host_id": 1,
        "queued_at": queued_at,
        "started_at": queued_at + 1,
    }
    values |= members
    finished_at = values["started_at"] + size_bytes / BYTES_PER_S
    return factory.ended(id_, finished_at, **values)


def host(id_: int, **members) -> api.HostRecord:
    values = {
        "uuid": str(uuid.UUID(int=id_)),
        "name": f"compute{id_}",
        "nic_bytes_per_s": 5e9,
        "up": True,
    }
    return api.HostRecord(id=id_, **{**values, **members})


@pytest.fixture
def export(database, epoch, empty_url, tmp_path, capsys):
    """Give a function that stores rows and exports them."""
    path = tmp_path / "sessions.json"

    def run(*rows, argv=(), conf="", hardware=None):
        if hardware is None:
            hardware = [*factory.hardware(), host(2)]
        database.commit(epoch, api.Changes.of([*hardware, *rows]))
        url = empty_url.replace("%", "%%")
        config = tmp_path / "fpgapool.conf"
        config.write_text(
            f"[DEFAULT]\nstate_path = {tmp_path}\n"
            f"[database]\nconnection = {url}\n{conf}"
        )
        code = manage.main(
            [f"--config-file={config}", "session", "export", *argv, str(path)]
        )
        said = capsys.readouterr()
        if code:
            return code, said.err
        return scenario_files.read(path), said.out

    database.upsert_accelerators(
        [
            api.AcceleratorRecord(
                name="aes",
                profile={
                    "peak_bytes_per_s": 1e9,
                    "platforms": {"medium": {"peak_bytes_per_s": 2e9}},
                },
            )
        ]
    )
    return run


def test_sessions_become_jobs_in_the_order_of_arrival(export):
    made, said = export(
        served(2, 1.7e9 + 5, host_id=2, deadline_s=9.0, application="a"),
        served(1, 1.7e9, project_id="p9", size_bytes=7, claimed_bytes=0),
        served(3, 1.7e9 + 6, host_id=None, priority=3),
    )
    first, second, third = made.jobs
    assert (first.arrival_s, first.host, first.tenant) == (0, 0, "p9")
    assert (first.size_bytes, first.claimed_bytes) == (7, 1)
    assert (second.arrival_s, second.host, second.deadline_s) == (5, 1, 9)
    assert (second.app, second.tenant) == ("a", "p1")
    assert (third.host, third.priority) == (None, 3)
    assert made.wakeups
    assert "3 sessions, from 2023-11-14 22:13 to 2023-11-14" in said
    assert "projects: 2, slots: 2." in said
    assert "Next: fpgapool-sim advise /" in said


def test_the_cluster_is_the_pools(export):
    cluster = export(served(1, 1.7e9))[0].cluster
    assert (cluster.hosts, cluster.fpga_hosts) == (2, (0,))
    assert (cluster.slot_count(0), cluster.dma_of(0)) == (2, 2.1e9)
    assert (cluster.nic_of(0), cluster.nic_of(1)) == (1.25e9, 5e9)
    assert cluster.shape_of(0) == "medium"
    assert cluster.reconfiguration_s == 0.025


def test_boards_of_a_host_are_one(export):
    hardware = [
        *factory.hardware(),
        api.DeviceRecord(
            id=2, host_id=1, name="b1", model="m", dma_bytes_per_s=1e9
        ),
        *(
            api.SlotRecord(id=id_, device_id=2, number=id_, shape="large")
            for id_ in (3, 4, 5)
        ),
    ]
    cluster = export(served(1, 1.7e9), hardware=hardware)[0].cluster
    assert (cluster.slot_count(0), cluster.dma_of(0)) == (5, 3.1e9)
    assert cluster.shape_of(0) == "large"


def test_slots_out_of_service_do_not_count(export):
    one, device, first, second = factory.hardware()
    hardware = [one, device, first, dataclasses.replace(second, faulty=True)]
    assert export(served(1, 1.7e9), hardware=hardware)[0].slot_count == 1


def test_a_pool_without_slots_in_service_is_refused(export):
    one, device, *slots = factory.hardware()
    disabled = dataclasses.replace(device, admin_state=states.DISABLED)
    code, said = export(served(1, 1.7e9), hardware=[one, disabled, *slots])
    assert code == 2
    assert "no slots in service" in said


def test_rates_are_those_that_sessions_had(export):
    """Slots are held while clients are slow."""
    made, _ = export(served(1, 1.7e9), served(2, 1.7e9 + 1))
    [aes] = made.cluster.accelerators.values()
    assert aes.peak_bytes_per_s == pytest.approx(BYTES_PER_S)
    assert aes.peak_in("medium") == pytest.approx(2 * BYTES_PER_S)
    assert aes.return_ratio == 0.5


def test_rates_are_not_above_the_librarys(export):
    fast = dataclasses.replace(
        served(1, 1.7e9, size_bytes=10**12), finished_at=1.7e9 + 2
    )
    made, _ = export(fast)
    assert made.cluster.accelerators["aes"].peak_bytes_per_s == 1e9


def test_accelerators_that_left_the_library_have_measured_rates(export):
    made, _ = export(served(1, 1.7e9, accelerator="old"))
    old = made.cluster.accelerators["old"]
    assert old.peak_bytes_per_s == pytest.approx(BYTES_PER_S)


def test_the_configured_strategy_and_its_options_come_first(export):
    made, said = export(
        served(1, 1.7e9),
        conf="[conductor]\nstrategy = era\nfair_share = true\n[scheduler]\n"
        "first_threshold_bytes = 77\nstrategy_options = reach:2\n"
        "preempt = fine\npreempt_gain = 0.5\n",
    )
    [(name, options)] = made.strategies.items()
    assert (name, options.E_bytes, options.own) == ("era", 77, {"reach": 2})
    assert (options.preempt, options.preempt_gain) == ("fine", 0.5)
    assert options.slot_choice == "least_busy"
    assert "Next: fpgapool-sim advise --fair-share /" in said


def test_what_the_pool_gave_is_kept_beside(export):
    made, _ = export(served(1, 1.7e9), served(2, 1.7e9 + 1))
    assert made.expected["wra"].metrics["act_s"] == pytest.approx(2)


def test_sessions_without_data_are_left_out_and_counted(export):
    made, said = export(
        served(1, 1.7e9),
        factory.ended(2, 1.7e9 + 1),
        factory.session(3),
    )
    assert len(made.jobs) == 1
    assert "1 sessions are left out: " in said


def test_without_sessions_there_is_nothing_to_export(export):
    code, said = export(factory.session(1))
    assert code == 2
    assert "no ended sessions with data" in said


def test_the_newest_are_exported_with_a_word(export):
    rows = [served(number, 1.7e9 + number) for number in range(1, 9)]
    made, said = export(*rows, argv=["--newest", "3"])
    assert [job.arrival_s for job in made.jobs] == [0, 1, 2]
    assert made.expected["wra"].metrics["act_s"] == pytest.approx(2)
    assert "Only the newest 3 ended sessions were read" in said


def test_pseudonyms_leave_no_identifier(export, tmp_path):
    made, _ = export(
        served(1, 1.7e9, project_id="secret", application="plan"),
        served(2, 1.7e9, project_id="other", accelerator="mine@secret"),
        argv=["--pseudonyms"],
    )
    text = (tmp_path / "sessions.json").read_text()
    for word in ("secret", "other", "plan", "compute", str(uuid.UUID(int=1))):
        assert word not in text
    assert [job.tenant for job in made.jobs] == ["project-1", "project-2"]
    assert [job.accelerator for job in made.jobs] == ["aes", "mine@project-1"]


def test_from_the_database_to_advice(export, tmp_path, capsys):
    """Large sessions and small ones overload two slots."""
    chooser = random.Random(1)
    queued_at, rows = 1.7e9, []
    for number in range(1, advising.MIN_JOBS + 1):
        queued_at += chooser.expovariate(3.0)
        size_bytes = chooser.choice([1_000_000] * 9 + [500_000_000])
        rows.append(served(number, queued_at, size_bytes=size_bytes))
    export(*rows, conf="[conductor]\nstrategy = fifo\n")
    path = str(tmp_path / "sessions.json")
    options = ["advise", path, "--strategy", "sjf", "--processes", "1"]
    assert sim.main(options) == 0
    said = capsys.readouterr().out
    assert "configured strategy: fifo" in said
    assert "s recorded by the pool" in said
    assert "\nAdvice: " in said
