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

"""Settings for every kind of test."""

import os
import secrets
import signal

import hypothesis
import pytest

# No deadlines: how long an example takes says something about the machine,
# not about the code.
hypothesis.settings.register_profile("dev", deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)


def _profile_name() -> str:
    default = "ci" if os.environ.get("CI") else "dev"
    return os.environ.get("HYPOTHESIS_PROFILE", default)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Load the profile, and choose a seed that can be named afterwards."""
    hypothesis.settings.load_profile(_profile_name())
    # The accelerators of the person who runs the tests are not ours.
    os.environ.pop("FPGAPOOL_ACCELERATORS_DIR", None)
    # A job in the background of a script ignores it, and so would all
    # programs that tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if _profile_name() != "ci" and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(secrets.randbits(32))


def pytest_report_header(config: pytest.Config) -> str:
    """Name what is needed to repeat this run's random examples."""
    if config.option.hypothesis_seed is None:
        return f"hypothesis: profile {_profile_name()}, always the same"
    seed = config.option.hypothesis_seed
    return f"hypothesis: repeat with --hypothesis-seed={seed}"


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the settings of the person who runs the tests out of them."""
    monkeypatch.delenv("FPGAPOOL_SOCKET", raising=False)
