"""The Chat Completions wire: OpenRouter, Ollama, llama.cpp, LM Studio, vLLM and many others. Pure."""

from collections.abc import Mapping

from term2_acp.domain.classes import frozen
from term2_acp.providers.base import ModelInfo, Request
from term2_acp.providers.chat.dialects import PLAIN, Dialect
from term2_acp.providers.chat.reply import ChatReply
from term2_acp.providers.chat.request import chat_request


@frozen
class ChatWire:
    """See ``Wire``. ``dialect`` is how the server differs from the others (``dialects.dialect_of``)."""

    dialect: Dialect = PLAIN
    path: str = "/chat/completions"

    def headers(self, key: str | None, model: str) -> Mapping[str, str]:
        """See ``Wire``."""
        del model
        return {"authorization": f"Bearer {key}"} if key else {}

    def body(self, request: Request, info: ModelInfo, provider: str) -> bytes:
        """See ``Wire``."""
        return chat_request(request, info, provider, self.dialect)

    def reply(self) -> ChatReply:
        """See ``Wire``."""
        return ChatReply(self.dialect)
