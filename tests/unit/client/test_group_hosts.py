# SPDX-License-Identifier: Apache-2.0

"""Tasks whose host is left, and whose group ends meanwhile."""

from __future__ import annotations

from unittest import mock

import pytest

from fpgapool.client import errors
from fpgapool.client.doors import groupdoor
from fpgapool.client.groups import grouphosts
from fpgapool.client.groups import grouplink
from fpgapool.protocol import groups
from fpgapool.protocol import records
from fpgapool.vocabulary import codes

HOST = groups.Host("here", 1, (), None)
REVOKED = errors.TaskFailed(codes.ACCESS_REVOKED, "no more")


@pytest.fixture
def hosts() -> grouphosts.Hosts:
    """Give the hosts of a group, none of which is known yet."""
    access = groupdoor.Access("g", "c", "secret", groups.MemberList(1, ()))
    return grouphosts.Hosts(mock.Mock(), access, 16, mock.Mock())


@pytest.fixture
def link(hosts) -> grouplink.Link:
    """Give a host that the group has no more; its thread is about to end."""
    made = grouplink.Link(HOST, hosts._lock)
    hosts._links[HOST.host_id] = made
    made.listed = False
    return made


@pytest.fixture(params=["task", "lock"])
def task(request, hosts, link) -> grouplink.Task:
    """Give what the host has not answered."""
    made = grouplink.Task(records.TASK)
    if request.param == "lock":
        made = grouplink.Task(groups.LOCK, lock=hosts.make_lock())
    made.number = 1
    link.unanswered[made.kind, made.number] = made
    hosts._sent = 1
    return made


def test_a_task_of_a_host_that_is_left_goes_to_another(hosts, link, task):
    hosts._lose_tasks(link)
    assert [*hosts._waiting] == [task]
    assert not task.done


def test_such_a_task_ends_with_its_group(hosts, link, task):
    with hosts._lock:
        hosts._forget(link)
    hosts.fail(REVOKED)
    hosts._lose_tasks(link)
    assert task.done
    assert str(task.error) == str(REVOKED)


def test_a_lost_task_ends_with_its_group(hosts, link):
    task = grouplink.Task(records.TASK)
    task.number = 1
    link.unanswered[records.TASK, 1] = task
    with hosts._lock:
        hosts._forget(link)
    hosts.fail(REVOKED)
    end = hosts._handle_other(
        link, records.FAILED, 1, {"code": codes.TASK_LOST}
    )
    end()
    assert str(task.error) == str(REVOKED)


def test_a_long_task_that_loses_three_members_fails(hosts, link):
    """The desk does not keep it, so it is this client that counts."""
    task = grouplink.Task(records.TASK)
    for number in range(1, 4):
        assert not task.done
        link.unanswered[records.TASK, number] = task
        ended = hosts._handle_other(
            link, records.FAILED, number, {"code": codes.TASK_LOST}
        )
        assert (ended is None) == (number < 3)
        assert [*hosts._waiting] == [task] * (number < 3)
        hosts._waiting.clear()
    ended()
    assert task.error.code == codes.WORKER_DIED
