"""A value of the house is a value of attrs: whatever attrs' own ``frozen`` would say of it, ours says too."""

import copy
import pickle

import attrs
import pytest
from attrs import field

from term2_acp.domain.values import frozen


def family(make):
    """The same four classes, made by one decorator or the other."""

    @make
    class Nothing:
        pass

    @make
    class One:
        name: str

    @make
    class Many:
        name: str
        size: int = 0
        secret: str = field(default="", repr=False)
        seen: list = field(factory=list, eq=False)

    @make
    class More(Many):
        extra: int = 0

    @make
    class Own:
        name: str

        def __repr__(self):
            return "own"

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 7

    return [
        Nothing(),
        One("a"),
        One("b"),
        One(("a",)),
        Many("a"),
        Many("a", seen=[1]),
        Many("a", secret="hush"),
        Many("a", 1),
        More("a"),
        More("a", extra=1),
        Own("a"),
        Own("b"),
    ]


OURS, THEIRS = family(frozen), family(attrs.frozen)


@pytest.mark.parametrize("place", range(len(OURS)))
def test_it_equals_what_it_would_equal(place):
    again = copy.copy(OURS[place])
    assert again == OURS[place]
    assert hash(again) == hash(OURS[place])
    assert [OURS[place] == other for other in OURS] == [THEIRS[place] == other for other in THEIRS]
    assert (OURS[place] == THEIRS[place]) is (THEIRS[place] == OURS[place])


def test_those_that_are_equal_are_one_in_a_set():
    assert len(set(OURS)) == len(set(THEIRS))


@pytest.mark.parametrize("place", range(len(OURS)))
def test_it_is_shown_as_it_would_be(place):
    assert repr(OURS[place]) == repr(THEIRS[place])


def test_what_is_not_to_be_shown_is_not_shown():
    assert "hush" not in repr(OURS[6])
    assert "secret" not in repr(OURS[6])


def test_what_cannot_be_hashed_says_so():
    with pytest.raises(TypeError, match="unhashable"):
        hash(type(OURS[1])(["a list"]))


def test_it_cannot_be_changed():
    one = OURS[1]
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        one.name = "other"
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        del one.name
    assert not hasattr(one, "__dict__")


def test_all_else_of_attrs_works_with_it():
    many = OURS[6]
    assert attrs.evolve(many, size=2) == type(many)("a", 2, "hush")
    assert attrs.asdict(many) == {"name": "a", "size": 0, "secret": "hush", "seen": []}
    assert type(many).__match_args__ == ("name", "size", "secret", "seen")
    assert [each.name for each in attrs.fields(type(many))] == ["name", "size", "secret", "seen"]


@frozen
class Kept:
    """At the top of its module, where pickle finds it."""

    name: str


def test_it_can_be_copied_out_of_the_process():
    assert pickle.loads(pickle.dumps(Kept("a"))) == Kept("a")
