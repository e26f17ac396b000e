"""The Chat Completions wire: OpenRouter, Ollama, llama.cpp, LM Studio, vLLM and many others. Pure."""

from collections.abc import Mapping

from attrs import frozen

from term2_acp.providers.base import ModelInfo, Request
from term2_acp.providers.chat_reply import ChatReply
from term2_acp.providers.chat_request import chat_request


@frozen
class ChatWire:
    """See ``Wire``."""

    path: str = "/chat/completions"

    def headers(self, key: str | None) -> Mapping[str, str]:
        """See ``Wire``."""
        return {"authorization": f"Bearer {key}"} if key else {}

    def body(self, request: Request, info: ModelInfo, provider: str) -> bytes:
        """See ``Wire``."""
        del info, provider
        return chat_request(request)

    def reply(self) -> ChatReply:
        """See ``Wire``."""
        return ChatReply()
