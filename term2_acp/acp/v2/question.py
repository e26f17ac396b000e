"""A permission question as a frame: the params of ``session/request_permission``, within the bound of one."""

import msgspec

from term2_acp.acp.fit import MAX_FRAME_BYTES, encode, shorten
from term2_acp.acp.shown import Wire, text_block
from term2_acp.acp.v2.toolcalls import fit_tool_call, tool_call_to_wire
from term2_acp.domain.permission import Ask

# Shares of a frame, in sixteenths. One is left for names, ids and the envelope.
_TITLE_SHARE = _OPTIONS_SHARE = _DESCRIPTION_SHARE = 1
_TOOL_CALL_SHARE = 12

_REST_NOTE = "The rest of this call is too long for the question. It is shown with the call itself."


def ask_to_wire(ask: Ask, max_frame_bytes: int = MAX_FRAME_BYTES) -> msgspec.Raw:
    """The params of ``session/request_permission``, encoded, within the bound of a frame."""
    sixteenth = max_frame_bytes // 16
    options = [
        {
            "optionId": option.option_id,
            "name": shorten(option.name, _OPTIONS_SHARE * sixteenth // max(1, len(ask.options))),
            "kind": option.kind,
        }
        for option in ask.options
    ]
    params: Wire = {"sessionId": ask.session_id, "title": shorten(ask.title, _TITLE_SHARE * sixteenth)}
    if ask.description:
        params["description"] = shorten(ask.description, _DESCRIPTION_SHARE * sixteenth)
    call, rest = fit_tool_call(tool_call_to_wire(ask.tool_call), _TOOL_CALL_SHARE * sixteenth)
    if rest:
        # A question has no chunks. The call was shown before, whole.
        call["content"] = [*call["content"], {"type": "content", "content": text_block(_REST_NOTE)}]
    params["subject"] = {"type": "tool_call", "toolCall": call}
    params["options"] = options
    return msgspec.Raw(encode(params))
