"""The Messages wire: Anthropic, and the servers of others that speak it. Pure."""

from collections.abc import Mapping

from term2_acp.domain.classes import frozen
from term2_acp.providers.anthropic.reply import AnthropicReply
from term2_acp.providers.anthropic.request import anthropic_request
from term2_acp.providers.anthropic.thinking import BETA, family_of
from term2_acp.providers.base import ModelInfo, Request

# The version of the wire that is written and read here. There has been no other since.
VERSION = "2023-06-01"


@frozen
class AnthropicWire:
    """See ``Wire``. The base URL ends in the API's version: ``https://api.anthropic.com/v1``."""

    path: str = "/messages"

    def headers(self, key: str | None, model: str) -> Mapping[str, str]:
        """See ``Wire``. A server that does not know a beta refuses it, so it is named where it is needed."""
        headers = {"anthropic-version": VERSION}
        if family_of(model).bound:
            headers["anthropic-beta"] = BETA
        return {**headers, "x-api-key": key} if key else headers

    def body(self, request: Request, info: ModelInfo, provider: str) -> bytes:
        """See ``Wire``."""
        return anthropic_request(request, info, provider)

    def reply(self) -> AnthropicReply:
        """See ``Wire``."""
        return AnthropicReply()
