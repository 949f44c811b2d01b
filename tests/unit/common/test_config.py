# SPDX-License-Identifier: Apache-2.0

import subprocess
import sys

import pytest
from oslo_config import cfg

from fpgapool.common import config
from fpgapool.common import exception


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


def test_a_missing_file_is_named(tmp_path):
    missing = str(tmp_path / "nothing.conf")
    with pytest.raises(exception.ConfigurationError, match=r"nothing\.conf"):
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
