# SPDX-License-Identifier: Apache-2.0

"""Units and other files for the system that services run on."""

import configparser
import grp
import pathlib
import pwd
import shutil
import subprocess
import tomllib

import pytest

from fpgapool import conf as fpgapool_conf
from fpgapool.api import app
from fpgapool.api.http import threads as web_threads
from tests.unit import systemd
from tests.unit.tree import ROOT


@pytest.mark.parametrize("name", systemd.UNITS)
def test_units_are_hardened(name):
    unit = systemd.read_unit(name)
    assert unit.service("User") == unit.service("Group") == "fpgapool"
    assert unit.service("NoNewPrivileges") == "yes"
    assert unit.service("ProtectSystem") == "strict"
    assert unit.service("CapabilityBoundingSet") == ""
    assert unit.service("StateDirectoryMode") == "0700"
    assert unit["Install"] == {"WantedBy": ["multi-user.target"]}


@pytest.mark.security
@pytest.mark.parametrize("name", systemd.UNITS)
def test_units_take_away_what_services_do_not_need(name):
    unit = systemd.read_unit(name)
    # Tenants' data and keys are in memory.
    assert unit.service("LimitCORE") == "0"
    sets = {
        word
        for words in unit["Service"]["SystemCallFilter"]
        for word in words.split()
        if not word.startswith("landlock_")
    }
    # With these, what agents start gives up its rights.
    given = {"seccomp"} if name.startswith("fpgapool-agent") else set()
    assert sets == {"@system-service", *given}
    assert unit.service("SystemCallErrorNumber") == "EPERM"


@pytest.mark.security
@pytest.mark.parametrize("name", systemd.UNITS)
def test_units_leave_memory_and_tasks_for_others(name):
    unit = systemd.read_unit(name)
    assert 0 < int(unit.service("MemoryMax").removesuffix("%")) <= 50
    assert 0 < int(unit.service("TasksMax")) <= 4096


def test_no_worker_takes_the_others_along():
    """By default systemd ends a unit of which the kernel ends a process."""
    for name in ("fpgapool-agent", "fpgapool-api"):
        assert systemd.read_unit(name).service("OOMPolicy") == "continue"


def test_all_threads_of_the_api_are_allowed():
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(systemd.ETC / "fpgapool/fpgapool-api-uwsgi.ini.sample")
    processes, threads = (
        int(parser["uwsgi"][name]) for name in ("processes", "threads")
    )
    # RPC and what waits for sessions have threads beside those of uWSGI.
    most = int(systemd.read_unit("fpgapool-api").service("TasksMax"))
    assert processes * threads * 2 <= most


@pytest.mark.parametrize("name", systemd.UNITS)
def test_services_tell_when_they_are_ready(name):
    # fpgapool.common.service and uWSGI do.
    assert systemd.read_unit(name).service("Type") == "notify"


def test_directories_are_those_of_the_options(monkeypatch):
    (state_path,) = [
        option.default
        for option in fpgapool_conf.default.default_opts
        if option.name == "state_path"
    ]
    for name in systemd.UNITS:
        directory = systemd.read_unit(name).service("StateDirectory")
        assert f"/var/lib/{directory}" == state_path
    assert (
        systemd.read_unit("fpgapool-agent").service("RuntimeDirectory")
        == "fpgapool"
    )


def test_workers_outlive_the_agent_only():
    assert systemd.read_unit("fpgapool-agent").service("KillMode") == "process"
    assert (
        systemd.read_unit("fpgapool-agent").service("RuntimeDirectoryPreserve")
        == "yes"
    )
    for name in ("fpgapool-api", "fpgapool-conductor"):
        assert "KillMode" not in systemd.read_unit(name)["Service"]


def test_workers_see_the_same_files_as_the_next_agent():
    # Each start of a unit gets another private /tmp.
    assert "PrivateTmp" not in systemd.read_unit("fpgapool-agent")["Service"]


def test_commands_are_those_of_the_package():
    text = (ROOT / "pyproject.toml").read_text()
    scripts = tomllib.loads(text)["project"]["scripts"]
    for name in ("fpgapool-agent", "fpgapool-conductor"):
        command = pathlib.PurePath(
            systemd.read_unit(name).service("ExecStart")
        )
        assert command.name in scripts
        assert str(command.parent) == "/usr/bin"


CAP = "fpgapool-agent.service.d/link-protection.conf"

#: What systemd's own analysis may find at most, in tenths; without the agent's
#: drop-in and with it. Version 252 finds 2.4, 2.6, 1.9 and 1.7.
EXPOSURES = [
    ("fpgapool-agent", [], 25),
    ("fpgapool-agent", [CAP], 27),
    ("fpgapool-api", [], 22),
    ("fpgapool-conductor", [], 20),
]


@pytest.mark.security
@pytest.mark.parametrize(("name", "drop_ins", "most"), EXPOSURES)
def test_units_expose_little(name, drop_ins, most, tmp_path):
    """Drop-ins count, too: they are installed beside the units."""
    own = tmp_path / "etc/systemd/system"
    for path in (f"{name}.service", *drop_ins):
        place = own / path
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(systemd.ETC / "systemd" / path, place)
    result = subprocess.run(
        [
            *("systemd-analyze", "security", "--offline=true"),
            *(f"--root={tmp_path}", f"--threshold={most}", f"{name}.service"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    assert f"exposure level for {name}.service: " in result.stdout


def test_all_drop_ins_are_analyzed():
    found = systemd.ETC.glob("systemd/*.d/*")
    assert {
        str(path.relative_to(systemd.ETC / "systemd")) for path in found
    } == {each for _, drop_ins, _ in EXPOSURES for each in drop_ins}


@pytest.mark.parametrize("name", systemd.UNITS)
def test_systemd_understands_the_units(name, tmp_path):
    """Of what systemd does not know it complains, where it is there."""
    verify = shutil.which("systemd-analyze")
    text = (systemd.ETC / "systemd" / f"{name}.service").read_text()
    unit = tmp_path / f"{name}.service"
    # Programs and accounts that are there.
    user = pwd.getpwuid(0).pw_name
    group = grp.getgrgid(0).gr_name
    for old, new in (
        ("User=fpgapool", f"User={user}"),
        ("Group=fpgapool", f"Group={group}"),
        ("ExecStart=/usr/bin/", "ExecStart=/usr/bin/true "),
    ):
        assert old in text
        text = text.replace(old, new)
    unit.write_text(text)
    if verify is not None:
        result = subprocess.run(
            [verify, "verify", str(unit)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert (result.returncode, result.stdout) == (0, "")


def test_uwsgi():
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(systemd.ETC / "fpgapool/fpgapool-api-uwsgi.ini.sample")
    options = parser["uwsgi"]
    module, _, variable = options["module"].partition(":")
    assert module == "fpgapool.wsgi.api"
    path = ROOT / module.replace(".", "/")
    assert f"\n{variable} = app.load()" in path.with_suffix(".py").read_text()
    assert app.load.__module__ == "fpgapool.api.app"
    unit = systemd.read_unit("fpgapool-api")
    assert "/etc/fpgapool/fpgapool-api-uwsgi.ini" in unit.service("ExecStart")
    threads = int(options["threads"])
    waiting = web_threads.most_that_wait(None, threads)
    text = systemd.ETC / "fpgapool/fpgapool-api-uwsgi.ini.sample"
    assert f"{waiting * int(options['processes'])} requests can wait" in (
        text.read_text()
    )


@pytest.mark.security
def test_the_socket_of_the_api_is_for_one_group():
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(systemd.ETC / "fpgapool/fpgapool-api-uwsgi.ini.sample")
    options = parser["uwsgi"]
    # Clients of uWSGI's own protocol choose what it runs.
    assert not {"socket", "uwsgi-socket", "http", "plugins"} & set(options)
    assert options["chmod-socket"] == "660"
    owner, _, group = options["chown-socket"].partition(":")
    unit = systemd.read_unit("fpgapool-api")
    assert owner == unit.service("User") != group
    assert group == unit.service("SupplementaryGroups")
    socket = pathlib.PurePath(options["http-socket"])
    directory = f"/run/{unit.service('RuntimeDirectory')}"
    assert str(socket.parent) == directory
    assert unit.service("RuntimeDirectoryMode") == "0750"
    command = unit.service("ExecStartPre")
    assert command == f"/usr/bin/chgrp {group} {directory}"
    accounts = (systemd.ETC / "sysusers.d/fpgapool.conf").read_text()
    assert f"\ng {group} -\n" in accounts
    for name in ("install/services.rst", "install/tls.rst"):
        text = (ROOT / "doc/source" / name).read_text()
        assert "uwsgi_pass unix:" not in text
    text = (ROOT / "doc/source/install/services.rst").read_text()
    assert f"proxy_pass http://unix:{socket};" in text
    assert f"usermod --append --groups {group} " in text


def test_logrotate_and_the_account():
    text = (systemd.ETC / "logrotate.d/fpgapool").read_text()
    assert "/var/log/fpgapool/*.log {" in text
    # Workers are told by nobody to open their files again.
    assert "copytruncate" in text
    account = (systemd.ETC / "sysusers.d/fpgapool.conf").read_text()
    assert "\nu fpgapool - " in account
