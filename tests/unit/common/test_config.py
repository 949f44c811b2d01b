# SPDX-License-Identifier: Apache-2.0

import re
import subprocess
import sys

import pytest
from oslo_config import cfg

from fpgapool import conf as fpgapool_conf
from fpgapool.common import config
from fpgapool.common import config_files
from fpgapool.common import exception
from tests.harness import samples


def _init(tmp_path, text: str, *argv: str) -> cfg.ConfigOpts:
    path = tmp_path / "fpgapool.conf"
    path.write_text(text)
    return config.init(
        "fpgapool-test",
        ["--config-file", str(path), *argv],
        conf=cfg.ConfigOpts(),
        default_config_files=[],
    )


def test_reads_files(tmp_path):
    conf = _init(tmp_path, "[conductor]\nstrategy = fifo\n")
    assert conf.conductor.strategy == "fifo"
    assert conf.agent.driver == "emulator"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[agent]\nchunk_bytes = 1\n", "chunk_bytes"),
        ("[conductor]\nlease_s = soon\n", "lease_s"),
        ("[DEFAULT]\nhost_uuid = me\n", "host_uuid"),
        ("no section, no equals sign\n[", "fpgapool.conf"),
    ],
)
def test_bad_files_are_refused_at_once(tmp_path, text, named):
    with pytest.raises(exception.ConfigurationError) as error:
        _init(tmp_path, text)
    assert named in str(error.value)
    assert error.value.code == "INVALID_CONFIGURATION"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "[conductor]\nlease_s = soon",
            "[conductor] lease_s = soon is not a number",
        ),
        (
            "[CONDUCTOR]\nlease_s = soon",
            "[conductor] lease_s = soon is not a number",
        ),
        (
            "[agent]\nchunk_bytes = 4k",
            "[agent] chunk_bytes = 4k is not a whole number",
        ),
        (
            "[agent]\ntls = perhaps",
            "[agent] tls = perhaps is neither true nor false",
        ),
        (
            "[conductor]\nlease_s = 0",
            "[conductor] lease_s = 0 is not valid:"
            " Should be greater than or equal to 1",
        ),
    ],
)
def test_a_bad_value_is_told_with_its_file(tmp_path, line, said):
    with pytest.raises(exception.ConfigurationError) as error:
        _init(tmp_path, f"{line}\n")
    path = tmp_path / "fpgapool.conf"
    assert str(error.value) == f"Invalid configuration: {path}: {said}"


def test_the_file_that_counts_is_told(tmp_path):
    later = tmp_path / "later"
    later.mkdir()
    (later / "b.conf").write_text("[conductor]\nlease_s = late\n")
    with pytest.raises(exception.ConfigurationError) as error:
        _init(
            tmp_path,
            "[conductor]\nlease_s = 3\n",
            *("--config-dir", str(later)),
        )
    assert f"{later}/b.conf: [conductor] lease_s = late" in str(error.value)


_LIBRARIES = """
[DEFAULT]
debug = true
transport_url = rabbit://
rpc_response_timeout = 3
[database]
connection = sqlite://
max_retries = 3
[placement]
auth_type = v3applicationcredential
application_credential_id = x
region_name = R
[glance]
auth_url = http://127.0.0.1
[emulator]
cluster_dir = /srv
[fpgapool_privsep]
user = pool
[oslo_messaging_rabbit]
anything = goes
[filter_scheduler]
any = thing
[keystone_authtoken]
"""


@pytest.fixture
def told(monkeypatch):
    """Return the warnings; setting up the log removes other handlers."""
    found: list[str] = []
    monkeypatch.setattr(
        config.LOG, "warning", lambda form, *args: found.append(form % args)
    )
    return found


def test_what_others_read_is_known(tmp_path, told):
    _init(tmp_path, _LIBRARIES)
    assert told == []


def test_every_option_of_the_sample_is_known(tmp_path):
    text = re.sub(r"(?m)^#(?=[a-z]\w* = )", "", samples.configuration())
    path = tmp_path / "fpgapool.conf"
    path.write_text(text)
    conf = cfg.ConfigOpts()
    fpgapool_conf.register_opts(conf)
    conf(["--config-file", str(path)], default_config_files=[])
    assert list(config_files.unknown(conf)) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[conductor]\nstratgy = auto",
            "[conductor] stratgy in FILE is no option and is ignored;"
            " did you mean strategy?",
        ),
        (
            "[conductor]\nzzz = auto\n[quota]",
            "[conductor] zzz in FILE is no option and is ignored",
        ),
        (
            "[DEFAULT]\nstate_pth = /srv",
            "[DEFAULT] state_pth in FILE is no option and is ignored;"
            " did you mean state_path?",
        ),
        (
            "[emulator]\ncluster_dri = /srv",
            "[emulator] cluster_dri in FILE is no option and is ignored;"
            " did you mean cluster_dir?",
        ),
        (
            "[glance]\nauth_ulr = http://127.0.0.1",
            "[glance] auth_ulr in FILE is no option and is ignored;"
            " did you mean auth_url?",
        ),
        (
            "[conducter]\nstrategy = auto",
            "[conducter] in FILE is no group of options and is ignored;"
            " did you mean [conductor]?",
        ),
    ],
)
def test_what_nothing_reads_is_told_once(tmp_path, told, text, said):
    _init(tmp_path, f"{text}\n")
    said = said.replace("FILE", str(tmp_path / "fpgapool.conf"))
    assert told == [said]


def test_a_missing_file_is_named(tmp_path):
    missing = str(tmp_path / "nothing.conf")
    with pytest.raises(
        exception.ConfigurationError, match=f"there is no file {missing}"
    ):
        config.init(
            "fpgapool-test",
            ["--config-file", missing],
            conf=cfg.ConfigOpts(),
            default_config_files=[],
        )


def test_a_directory_instead_of_a_file_is_named(tmp_path):
    with pytest.raises(exception.ConfigurationError, match=str(tmp_path)):
        _init(tmp_path, "", "--config-file", str(tmp_path))


def test_an_unknown_argument_is_a_usage_error(tmp_path, capsys):
    with pytest.raises(SystemExit) as error:
        _init(tmp_path, "", "--frobnicate")
    assert error.value.code == 2
    assert "--frobnicate" in capsys.readouterr().err


_LOGS = """
import os, sys
from oslo_log import log
from fpgapool.common import config
path = sys.argv[1]
config.init("test", ["--log-file", path], default_config_files=[])
log.getLogger("fpgapool").warning("told %s", "\\ud800")
os.rename(path, path + ".1")
log.getLogger("fpgapool").warning("again %s", "\\ud801")
"""


def test_what_is_no_text_is_logged_all_the_same(tmp_path):
    """In a process of its own: logging is set up once."""
    path = tmp_path / "log"
    ended = subprocess.run(
        [sys.executable, "-c", _LOGS, str(path)],
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    assert "Logging error" not in ended.stderr
    assert "told \\ud800" in (tmp_path / "log.1").read_text()
    assert "again \\ud801" in path.read_text()


def test_a_log_that_cannot_be_opened_is_named(tmp_path):
    path = tmp_path / "missing" / "a.log"
    with pytest.raises(exception.ConfigurationError, match=str(path)):
        _init(tmp_path, "", "--log-file", str(path))


_STOPS = """
import sys
from amqp import abstract_channel
from fpgapool.common import config
config.init("test", ["--log-file", sys.argv[1]], default_config_files=[])
for method in (60, 30), (60, 60):
    abstract_channel.AMQP_LOGGER.warning(
        abstract_channel.IGNORED_METHOD_DURING_CHANNEL_CLOSE, method, 1
    )
"""


def test_amqp_tells_nothing_of_queues_that_are_deleted_on_purpose(tmp_path):
    """In a process of its own: logging is set up once."""
    path = tmp_path / "log"
    subprocess.run([sys.executable, "-c", _STOPS, str(path)], check=True)
    (line,) = path.read_text().splitlines()
    assert "Received method (60, 60) during closing channel 1" in line
