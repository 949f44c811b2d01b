# SPDX-License-Identifier: Apache-2.0

"""The tree of domains and projects that shares follow."""

from __future__ import annotations

from typing import Any

import pytest
from keystoneauth1 import adapter
from keystoneauth1 import exceptions
from oslo_config import cfg

from fpgapool import conf as fpgapool_conf
from fpgapool.clients import keystone_projects
from fpgapool.common import exception
from fpgapool.conductor.decisions import inputs
from fpgapool.conductor.outside import keystone_tree
from fpgapool.conductor.runtime import strategy_loading
from fpgapool.core.queues import share_tree
from tests.unit.conductor import world

PROJECTS = [
    {"id": "inner", "parent_id": "d1", "domain_id": "d1"},
    {"id": "leaf", "parent_id": "inner", "domain_id": "d1"},
    {"id": "other", "parent_id": None, "domain_id": "d2"},
]
PARENTS = {"inner": "d1", "leaf": "inner", "other": "d2"}


class FakeAdapter(adapter.Adapter):
    """Gives one document for each path, or an error."""

    def __init__(self, **documents: Any) -> None:
        self.documents = documents

    def get(self, path: str, **_options: Any) -> Any:
        found = self.documents[path.strip("/")]
        if isinstance(found, Exception):
            raise found
        return Answer(found)


class Answer:
    def __init__(self, document: Any) -> None:
        self._document = document

    def json(self) -> Any:
        return self._document


def parents(**documents: Any) -> dict[str, str]:
    client = keystone_projects.Projects(FakeAdapter(**documents), 1.0)
    return client.parents()


def test_all_pages_are_read() -> None:
    assert parents(projects={"projects": PROJECTS}) == PARENTS
    first = {"projects": PROJECTS[:1], "links": {"next": "more"}}
    more = {
        "projects": PROJECTS[1:],
        "links": {"next": None},
        "truncated": False,
    }
    assert parents(projects=first, more=more) == PARENTS


@pytest.mark.parametrize(
    "answer",
    [
        exceptions.ConnectFailure("nobody is there"),
        {"projects": PROJECTS[:1], "truncated": True},
        {"projects": [{"id": "p"}]},
        {"projects": None},
        [],
    ],
)
def test_what_is_no_list_of_all_projects_is_refused(answer: Any) -> None:
    with pytest.raises(exception.KeystoneUnavailable):
        parents(projects=answer)


def test_pages_have_an_end() -> None:
    with pytest.raises(exception.KeystoneUnavailable, match="pages"):
        parents(projects={"projects": [], "links": {"next": "projects"}})


class FakeProjects:
    """Has these projects, or is away."""

    def __init__(self) -> None:
        self.found: dict[str, str] | None = PARENTS

    def parents(self) -> dict[str, str]:
        if self.found is None:
            raise exception.KeystoneUnavailable(reason="it is away")
        return self.found


def test_the_last_known_tree_applies(caplog: Any) -> None:
    projects, taken = FakeProjects(), list[share_tree.Places]()
    follower = keystone_tree.TreeFollower(
        projects, taken.append, 60.0, pytest.fail
    )
    projects.found = None
    follower.follow()
    assert "so all share alike, whatever their domains" in caplog.text
    projects.found = PARENTS
    follower.follow()
    follower.follow()
    assert taken == [share_tree.Places(PARENTS)]
    for away in (None, {"a": "b", "b": "a"}):
        projects.found = away
        follower.follow()
        assert "the previous ones still apply" in caplog.text
        projects.found = PARENTS
        follower.follow()
    assert len(taken) == 1
    projects.found = {**PARENTS, "new": "d2"}
    follower.follow()
    assert len(taken) == 2


def test_shares_follow_it() -> None:
    pool = world.Conductor([world.FakeAgent("a", 1)], fair=True)
    pool.feed(inputs.NewTree(share_tree.Places({"p": "d", "q": "d"})))
    accounts = pool.memory.core.view.accounts
    assert accounts is not None
    accounts.join("p")
    whole = accounts.options.quantum_bytes
    assert [accounts.share_bytes(name) for name in "pqx"] == [
        whole,
        whole / 2,
        whole,
    ]


def configured(**options: Any) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    fpgapool_conf.register_opts(conf)
    conf([], default_config_files=[])
    for name, value in options.items():
        conf.set_override(name, value, group="conductor")
    return conf


def test_it_needs_shares_and_credentials() -> None:
    with pytest.raises(exception.ConfigurationError, match="fair_share"):
        strategy_loading.load_strategy(configured(share_tree="keystone"))
    conf = configured(share_tree="keystone", fair_share=True)
    strategy_loading.load_strategy(conf)
    with pytest.raises(exception.ConfigurationError, match="auth_type"):
        keystone_projects.Projects.from_conf(conf)
