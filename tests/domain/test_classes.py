"""A class of the house is a class of attrs: whatever attrs' own decorators would have it say, it says."""

import copy
import pickle

import attrs
import pytest
from attrs import field

from term2_acp.domain.classes import define, frozen


def family(make):
    """The same classes, made by one decorator or the other, and objects of them."""

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

    @make
    class Unhashable:  # noqa: PLW1641 - that is what is tried
        name: str

        def __eq__(self, other):
            return True

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
        Unhashable("a"),
    ]


WAYS = [
    pytest.param(family(ours), family(theirs), id=name)
    for name, ours, theirs in (
        ("frozen", frozen, attrs.frozen),
        ("define", define, attrs.define),
        ("frozen by itself", frozen(eq=False), attrs.frozen(eq=False)),
        ("define by itself", define(eq=False), attrs.define(eq=False)),
    )
]
OURS = family(frozen)


def equal(objects):
    return [[one == other for other in objects] for one in objects]


def hashes(objects):
    """Which are hashed alike, and which not at all."""
    found = []
    for each in objects:
        try:
            found.append(hash(each))
        except TypeError:
            found.append(None)
    return [[one is not None and one == other for other in found] for one in found]


@pytest.mark.parametrize(("ours", "theirs"), WAYS)
def test_it_equals_what_it_would_equal(ours, theirs):
    assert equal(ours) == equal(theirs)
    again = [copy.copy(each) for each in ours]
    assert [a == b for a, b in zip(again, ours, strict=True)] == [copy.copy(each) == each for each in theirs]
    assert ours[1] != theirs[1]


@pytest.mark.parametrize(("ours", "theirs"), WAYS)
def test_it_is_hashed_as_it_would_be(ours, theirs):
    assert hashes(ours) == hashes(theirs)


@pytest.mark.parametrize(("ours", "theirs"), WAYS)
def test_it_is_shown_as_it_would_be(ours, theirs):
    assert [repr(each) for each in ours] == [repr(each) for each in theirs]


def test_one_that_holds_itself_can_be_shown():
    @define
    class Ring:
        next: object = None

    ring = Ring()
    ring.next = ring
    assert repr(ring) == "Ring(next=...)"


def test_no_other_option_is_taken():
    with pytest.raises(TypeError):
        frozen(slots=False)


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
