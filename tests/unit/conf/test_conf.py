# SPDX-License-Identifier: Apache-2.0

import socket

import pytest
from oslo_config import cfg
from oslo_db import options as db_options

from fpgapool import conf as fpgapool_conf
from fpgapool.conf import default
from fpgapool.conf import opts


def _configuration(tmp_path, text: str = "") -> cfg.ConfigOpts:
    path = tmp_path / "fpgapool.conf"
    path.write_text(text)
    conf = cfg.ConfigOpts()
    fpgapool_conf.register_opts(conf)
    conf(["--config-file", str(path)], default_config_files=[])
    return conf


def _options() -> list:
    return [
        pytest.param(opt, id=f"{group}-{opt.name}")
        for group, group_opts in [
            *opts.list_own_opts(),
            *opts.list_driver_opts(),
        ]
        for opt in group_opts
    ]


@pytest.mark.parametrize("opt", _options())
def test_help_is_prose(opt):
    text = opt.help.strip()
    assert text[0].isupper()
    assert text.endswith(".")
    assert all(len(line) <= 79 for line in opt.help.splitlines())


@pytest.mark.parametrize("opt", _options())
def test_names_have_units(opt):
    words = opt.name.split("_")
    for bare in ("timeout", "interval", "size", "rate", "time"):
        assert words[-1] != bare, f"{opt.name} lacks its unit"


@pytest.mark.parametrize("opt", _options())
def test_defaults_do_not_show_this_machine(opt):
    machine = (socket.gethostname(), default.default_opts[1].default)
    if opt.default in machine:
        assert opt.sample_default not in (None, *machine)


def test_every_registered_option_is_listed():
    conf = cfg.ConfigOpts()
    fpgapool_conf.register_opts(conf)
    listed = {
        (str(getattr(group, "name", group)), opt.dest)
        for group, group_opts in opts.list_own_opts()
        for opt in group_opts
    }
    registered = {("DEFAULT", name) for name in conf._opts}
    for name, group in conf._groups.items():
        registered |= {(name, dest) for dest in group._opts}
    # Shown by oslo.db's own entry point.
    of_oslo = {
        ("database", opt.dest)
        for _, group_opts in db_options.list_opts()
        for opt in group_opts
    }
    # What oslo.config itself registers for every program.
    own = {name for name, _ in registered} & set(conf._groups) | {"DEFAULT"}
    assert listed <= registered
    assert {
        entry
        for entry in registered - listed - of_oslo
        if entry[0] in own and not entry[1].startswith(("config_", "shell_"))
    } == set()


def test_groups_can_be_registered_twice():
    conf = cfg.ConfigOpts()
    fpgapool_conf.register_opts(conf)
    fpgapool_conf.register_opts(conf)
    conf([], default_config_files=[])
    assert conf.conductor.strategy == "wra"


def test_database_follows_state_path(tmp_path):
    conf = _configuration(tmp_path, "[DEFAULT]\nstate_path = /srv/pool\n")
    assert conf.database.connection == "sqlite:////srv/pool/fpgapool.sqlite"


def test_workers_listen_nowhere_unless_told(tmp_path):
    conf = _configuration(tmp_path)
    assert conf.agent.data_address is None
    assert conf.agent.front_door_sockets == {}
    assert conf.agent.tls is True


def test_front_door_sockets(tmp_path):
    conf = _configuration(
        tmp_path,
        "[agent]\nfront_door_sockets = p1:/run/a.sock, p2:/run/b.sock\n",
    )
    assert conf.agent.front_door_sockets == {
        "p1": "/run/a.sock",
        "p2": "/run/b.sock",
    }


def test_host_uuid_depends_on_the_name_only():
    first = default.default_host_uuid("compute1")
    assert first == default.default_host_uuid("compute1")
    assert first != default.default_host_uuid("compute2")


@pytest.mark.parametrize(
    ("group", "name", "value"),
    [
        ("DEFAULT", "host_uuid", "compute1"),
        ("conductor", "name", ""),
        ("conductor", "lease_s", "0"),
        ("conductor", "max_claimed_bytes", str(2**63)),
        ("conductor", "max_claimed_bytes", "0"),
        ("scheduler", "threshold_ratio", "1"),
        ("scheduler", "remote_limit", "-2"),
        ("scheduler", "thresholds_bytes", "5,zero"),
        ("scheduler", "fallback", "maybe"),
        ("agent", "data_address", "compute1"),
        ("agent", "data_ports", "1-2-3"),
        ("agent", "data_network", "local"),
        ("agent", "chunk_bytes", "12"),
        ("agent", "window_chunks", "1"),
        ("agent", "tls", "perhaps"),
    ],
)
def test_bad_values_are_refused(tmp_path, group, name, value):
    conf = _configuration(tmp_path, f"[{group}]\n{name} = {value}\n")
    values = conf if group == "DEFAULT" else conf[group]
    with pytest.raises((cfg.ConfigFileValueError, ValueError)):
        values[name]
