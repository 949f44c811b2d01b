# SPDX-License-Identifier: Apache-2.0

"""Shares of the web server's threads."""

import sys
import types

import pytest
from oslo_config import cfg

from fpgapool import conf as fpgapool_conf
from fpgapool.api.http import threads


@pytest.fixture
def conf():
    made = cfg.ConfigOpts()
    fpgapool_conf.api.OPTIONS.register(made)
    made([], project="fpgapool", default_config_files=[])
    return made


def _in_uwsgi(monkeypatch, options):
    # The module has nothing else of what is asked.
    module = types.SimpleNamespace(opt=options)
    monkeypatch.setitem(sys.modules, "uwsgi", module)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"threads": b"24"}, 24),
        ({"threads": [b"8", b"24"]}, 24),
        # It has one if nobody says anything.
        ({}, 1),
        ({"threads": b"many"}, None),
    ],
)
def test_uwsgi_says_how_many_there_are(monkeypatch, conf, options, expected):
    _in_uwsgi(monkeypatch, options)
    assert threads.count(conf) == expected


def test_of_other_servers_nothing_is_known_that_is_not_configured(conf):
    assert threads.count(conf) is None
    conf.set_override("server_threads", 8, group="api")
    assert threads.count(conf) == 8


def test_what_is_configured_is_said_of_uwsgi_too(monkeypatch, conf):
    _in_uwsgi(monkeypatch, {"threads": b"24"})
    conf.set_override("server_threads", 8, group="api")
    assert threads.count(conf) == 8


@pytest.mark.parametrize("number", range(1, 100))
def test_no_project_and_no_waiting_takes_all_threads(conf, number):
    """Whoever waits can do something else, too, and others in any case."""
    project = threads.most_of_a_project(conf.api.max_project_requests, number)
    waiting = threads.most_that_wait(conf.api.max_waiters, number)
    assert 0 <= waiting <= project
    assert waiting < project or number < 12
    # With one thread nobody can be protected.
    assert project < number or number == 1


def test_without_options_and_knowledge_few_wait():
    assert threads.most_of_a_project(None, None) == 36
    assert threads.most_that_wait(None, None) == 16


def test_without_knowledge_and_with_plenty_options_are_as_they_are():
    for number in (None, 1000):
        assert threads.most_of_a_project(36, number) == 36
        assert threads.most_that_wait(16, number) == 16
