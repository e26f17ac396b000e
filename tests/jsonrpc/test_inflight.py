"""The table of open ids. Charter: types are told apart, ids of ours are never used twice, and each entry
leaves the table once."""

from term2_acp.jsonrpc.inflight import Inflight


def test_one_and_the_string_one_are_two_ids():
    table: Inflight[str, str] = Inflight()
    table.accept(1, "number")
    table.accept("1", "string")

    assert (table.find(1), table.find("1")) == ("number", "string")
    table.release(1)
    assert (table.find(1), table.find("1")) == (None, "string")
    assert table.incoming == 1


def test_an_id_may_come_back_once_it_was_released():
    table: Inflight[str, str] = Inflight()
    table.accept("a", "first")
    table.release("a")
    table.release("a")
    table.accept("a", "second")

    assert table.find("a") == "second"


def test_our_ids_count_up_and_settle_once():
    table: Inflight[str, str] = Inflight()
    first, second = table.next_id(), table.next_id()
    table.call(first, "x")
    table.call(second, "y")

    assert second == first + 1
    assert table.settle(str(first)) is None
    assert table.settle(first) == "x"
    assert table.settle(first) is None
    assert table.outgoing == 1
    assert table.find(second) is None  # the two directions do not meet


def test_settling_all_takes_in_what_is_opened_meanwhile():
    table: Inflight[str, str] = Inflight()
    table.call(table.next_id(), "x")
    seen = []
    for call in table.settle_all():
        seen.append(call)
        if len(seen) == 1:
            table.call(table.next_id(), "late")

    assert seen == ["x", "late"]
    assert table.outgoing == 0
