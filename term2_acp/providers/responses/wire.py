"""The Responses wire: OpenAI, and servers that speak it too. Pure."""

from collections.abc import Mapping

from term2_acp.domain.classes import frozen
from term2_acp.providers.base import ModelInfo, Request
from term2_acp.providers.responses.reply import ResponsesReply
from term2_acp.providers.responses.request import responses_request


@frozen
class ResponsesWire:
    """See ``Wire``.

    ``summaries`` asks the model for a summary of what it thinks. OpenAI refuses every such request of an
    organisation that is not verified, so it is nothing to ask for unbidden.
    """

    path: str = "/responses"
    summaries: bool = False

    def headers(self, key: str | None, model: str) -> Mapping[str, str]:
        """See ``Wire``."""
        del model
        return {"authorization": f"Bearer {key}"} if key else {}

    def body(self, request: Request, info: ModelInfo, provider: str) -> bytes:
        """See ``Wire``."""
        return responses_request(request, info, provider, summaries=self.summaries)

    def reply(self) -> ResponsesReply:
        """See ``Wire``."""
        return ResponsesReply()
