"""The words in which servers say why they stopped: each has one meaning, and an unknown one is no success."""

import pytest

from term2_acp.providers.base import Finish
from term2_acp.providers.chat.ends import finish_of
from term2_acp.providers.wire import Broken


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("stop", Finish.STOP),
        ("STOP", Finish.STOP),
        ("function_calls", Finish.TOOL_CALLS),
        ("model_length", Finish.LENGTH),
        ("MAX_TOKENS", Finish.LENGTH),
        ("content_filter: RECITATION", Finish.REFUSAL),
        ("content_filter: SOMETHING_NEW", Finish.REFUSAL),
        ("PROHIBITED_CONTENT", Finish.REFUSAL),
        ("function_call_filter: MALFORMED_FUNCTION_CALL", Broken("made a malformed tool call")),
        ("insufficient_system_resource", Broken("had no capacity to finish its answer")),
        ("error", Broken("failed in the middle of its answer")),
        ("load", Broken("ended its answer with the unknown reason 'load'")),
        (" ", Broken("ended its answer with the unknown reason ' '")),
        ("x" * 99, Broken(f"ended its answer with the unknown reason '{'x' * 40}'")),
    ],
)
def test_words(word: str, finish: Finish | Broken) -> None:
    assert finish_of(word) == finish


@pytest.mark.parametrize(
    ("word", "native", "finish"),
    [
        ("stop", "end_turn", Finish.STOP),
        ("tool_calls", "tool_use", Finish.TOOL_CALLS),
        ("tool_calls", "STOP", Finish.TOOL_CALLS),
        ("stop", "completed", Finish.STOP),
        ("stop", "refusal", Finish.REFUSAL),
        ("stop", "model_context_window_exceeded", Finish.LENGTH),
        ("tool_calls", "MALFORMED_FUNCTION_CALL", Broken("made a malformed tool call")),
        ("length", "stop", Finish.LENGTH),
        ("content_filter", "STOP", Finish.REFUSAL),
    ],
)
def test_the_word_behind_a_gateway_counts_where_it_is_worse(
    word: str, native: str, finish: Finish | Broken
) -> None:
    assert finish_of(word, native) == finish
