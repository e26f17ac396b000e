"""The state of a session: what is shown when calls work and ask, and that nothing is after a cancel."""

import pytest

from term2_acp.domain.events import RequiresAction, Running
from term2_acp.session.state import Activity, State

RUN, ASK = Running(), RequiresAction()


@pytest.fixture
def shown():
    return []


@pytest.fixture
def over():
    return []


@pytest.fixture
def activity(shown, over):
    activity = Activity(shown.append)
    activity.begin(lambda: bool(over))
    return activity


def test_a_lone_ask_is_an_action_and_its_answer_runs_on(activity, shown):
    with activity.working(1) as group:
        with group.asking():
            assert activity.state is State.REQUIRES_ACTION
            assert shown == [RUN, ASK]
        assert shown == [RUN, ASK, RUN]
        group.done()
    activity.end()
    assert activity.state is State.IDLE
    assert shown == [RUN, ASK, RUN]


def test_an_ask_beside_work_is_none_until_the_work_is_done(activity, shown):
    with activity.working(2) as group:
        with group.asking():
            assert shown == [RUN]
            group.done()
            assert shown == [RUN, ASK]
        assert shown == [RUN, ASK, RUN]
        group.done()


def test_two_asks_become_one_action(activity, shown):
    with activity.working(2) as group:
        with group.asking():
            with group.asking():
                assert shown == [RUN, ASK]
            assert shown == [RUN, ASK, RUN]
            group.done()
            assert shown == [RUN, ASK, RUN, ASK]
        group.done()


def test_after_a_cancel_nothing_is_shown_but_the_idle(activity, shown, over):
    with activity.working(2) as group:
        with group.asking(), group.asking():
            over.append(1)
        group.done()
        group.done()
    activity.end()
    assert shown == [RUN, ASK]
    assert activity.state is State.IDLE


def test_what_is_left_of_a_group_is_done_when_its_context_ends(activity, shown):
    with activity.working(3) as group:
        group.done()
    with activity.working(1) as group, group.asking():
        assert shown == [RUN, ASK]
