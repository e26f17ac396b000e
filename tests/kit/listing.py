"""Answers of a model server to whoever asks which models it has, one for each path; and a server on any port
that stands in for Ollama, llama.cpp or another."""

import json
from collections.abc import Mapping
from typing import Any

from term2_acp.providers.servers.known import Known
from term2_acp.providers.servers.presets import PRESETS
from tests.kit.model_server import Answer, Call, status


def routes(answers: Mapping[str, Any]) -> Answer:
    """Answer each path by its answer, or with its value as JSON; every other path with a 404."""

    async def answer(call: Call) -> None:
        found = answers.get(call.path, status(404, '{"error": {"message": "not found"}}'))
        await (found if callable(found) else says_json(found))(call)

    return answer


def says_json(value: Any) -> Answer:
    """A 200 whose body is this value as JSON, or these bytes."""

    async def answer(call: Call) -> None:
        await call.head(200, "application/json")
        await call.send(value if isinstance(value, bytes) else json.dumps(value))
        await call.end()

    return answer


def lists(*ids: str) -> Answer:
    """The list of models as most servers give it, whatever the path."""
    return says_json({"object": "list", "data": [{"id": name, "object": "model"} for name in ids]})


def preset_at(name: str, base_url: str) -> Known:
    """A local preset, on another port."""
    preset = PRESETS[name]
    return Known(name, preset.type, base_url, like=preset)
