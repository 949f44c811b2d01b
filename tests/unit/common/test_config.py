#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

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


def test_an_unknown_argument_is_a_usage_error(tmp_path, capsys):
    with pytest.raises(SystemExit) as error:
        _init(tmp_path, "", "--frobnicate")
    assert error.value.code == 2
    assert "--frobnicate" in capsys.readouterr().err
