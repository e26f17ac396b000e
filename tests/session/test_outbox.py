"""The outbox: order, merging, the few milliseconds that text may gather, and who waits when."""

import pytest
import trio

from term2_acp.domain.events import AgentMessageChunk, AgentThoughtChunk, Running
from term2_acp.domain.ids import MessageId
from term2_acp.session.outbox import LINE_ENTRIES, TEXT_AGE_S, TEXT_RUSH, Closed, Outbox

M, N = MessageId("m"), MessageId("n")


def chunk(text: str, message_id: MessageId = M) -> AgentMessageChunk:
    return AgentMessageChunk(message_id, text)


async def test_entries_come_out_in_order_and_adjacent_text_is_one(autojump_clock):
    outbox = Outbox()
    marker = object.__repr__
    outbox.put_nowait([chunk("a"), chunk("b"), chunk("c"), Running(), chunk("d"), marker, chunk("e")])
    assert await outbox.take() == [chunk("abc"), Running(), chunk("d"), marker, chunk("e")]


async def test_text_of_another_message_or_kind_is_not_merged(autojump_clock):
    outbox = Outbox()
    thought = AgentThoughtChunk(M, "t")
    outbox.put_nowait([chunk("a"), chunk("b", N), thought, thought, chunk("c")])
    assert await outbox.take() == [chunk("a"), chunk("b", N), AgentThoughtChunk(M, "tt"), chunk("c")]


async def test_without_merging_each_piece_stays_its_own(autojump_clock):
    outbox = Outbox(merge_text=False)
    outbox.put_nowait([chunk("a"), chunk("b")])
    assert await outbox.take() == [chunk("a"), chunk("b")]


async def test_the_first_text_goes_at_once_and_the_next_gathers(autojump_clock):
    outbox = Outbox()
    outbox.put_nowait([chunk("a")])
    start = trio.current_time()
    assert await outbox.take() == [chunk("a")]
    assert trio.current_time() == start
    outbox.put_nowait([chunk("b")])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(put_later, outbox, chunk("c"), 0.002)
        assert await outbox.take() == [chunk("bc")]
    assert trio.current_time() - start == pytest.approx(TEXT_AGE_S)


async def test_text_gathers_from_when_the_last_group_was_done_with(autojump_clock):
    outbox = Outbox()
    outbox.put_nowait([Running()])
    await outbox.take()
    await trio.sleep(4 * TEXT_AGE_S)  # a commit that takes long, or that two hundred sessions share
    start = trio.current_time()
    outbox.put_nowait([chunk("a")])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(put_later, outbox, chunk("b"), TEXT_AGE_S / 2)
        assert await outbox.take() == [chunk("ab")]
    assert trio.current_time() - start == pytest.approx(TEXT_AGE_S)


async def test_text_that_comes_when_nothing_came_for_long_goes_at_once(autojump_clock):
    outbox = Outbox()
    outbox.put_nowait([chunk("a")])
    await outbox.take()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(put_later, outbox, chunk("b"), 2 * TEXT_AGE_S)
        start = trio.current_time()
        assert await outbox.take() == [chunk("b")]
    assert trio.current_time() - start == pytest.approx(2 * TEXT_AGE_S)


async def put_later(outbox: Outbox, entry: object, seconds: float) -> None:
    await trio.sleep(seconds)
    outbox.put_nowait([entry])


@pytest.mark.parametrize("entry", [Running(), chunk("x" * TEXT_RUSH)])
async def test_what_is_urgent_ends_the_gathering(autojump_clock, entry):
    outbox = Outbox()
    outbox.put_nowait([chunk("a")])
    await outbox.take()
    outbox.put_nowait([chunk("b")])
    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(put_later, outbox, entry, 0.001)
        await outbox.take()
    assert trio.current_time() - start == pytest.approx(0.001)


async def test_text_wakes_a_pump_that_waits_for_anything(autojump_clock):
    outbox = Outbox()
    outbox.put_nowait([Running()])
    await outbox.take()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(put_later, outbox, chunk("a"), 0.001)
        with trio.fail_after(1):
            assert await outbox.take() == [chunk("a")]


async def test_a_full_line_holds_up_the_turn_and_nothing_else(autojump_clock):
    outbox = Outbox()
    await outbox.room()
    outbox.put_nowait([Running()] * LINE_ENTRIES)
    assert outbox.full
    with trio.move_on_after(1) as bound:
        await outbox.room()
    assert bound.cancelled_caught
    outbox.put_nowait([chunk("last")])
    taken = await outbox.take()
    assert len(taken) == LINE_ENTRIES + 1
    assert not outbox.full
    with trio.fail_after(1):
        await outbox.room()


async def test_reached_waits_for_the_marker(autojump_clock):
    outbox = Outbox()
    order = []

    async def wait() -> None:
        await outbox.reached()
        order.append("reached")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        (marker,) = await outbox.take()
        order.append("taken")
        marker()
    assert order == ["taken", "reached"]


async def test_closed_it_drains_and_takes_nothing_more(autojump_clock):
    outbox = Outbox()
    outbox.put_nowait([chunk("a")])
    outbox.close_nowait()
    with pytest.raises(Closed):
        outbox.put_nowait([chunk("b")])
    await outbox.room()
    assert await outbox.take() == [chunk("a")]
    assert await outbox.take() == []


async def test_a_long_message_in_small_pieces_costs_one_join(autojump_clock):
    outbox = Outbox()
    pieces = ["x" * 32] * 4000
    outbox.put_nowait([chunk(piece) for piece in pieces])
    (whole,) = await outbox.take()
    assert whole == chunk("x" * 32 * 4000)
