"""Reads streams of a model server with the vendor's own SDK; a child of ``scripts/parsing.py``.

Started with a Python that has the SDKs, which term2's own need not have. It takes the arguments of
``reading.py`` and prints what that prints.
"""

import json
import sys
import time


def _openai(base_url: str):
    import openai

    client = openai.OpenAI(base_url=base_url, api_key="sk-bench", max_retries=0)

    def once() -> int:
        said = 0
        with client.responses.create(model="m-1", input="go", stream=True) as stream:
            for event in stream:
                if event.type == "response.output_text.delta":
                    said += len(event.delta)
        return said

    return once


def _chat(base_url: str):
    import openai

    client = openai.OpenAI(base_url=base_url, api_key="sk-bench", max_retries=0)
    messages = [{"role": "user", "content": "go"}]

    def once() -> int:
        said = 0
        with client.chat.completions.create(model="m-1", messages=messages, stream=True) as stream:
            for chunk in stream:
                if chunk.choices and chunk.choices[0].delta.content:
                    said += len(chunk.choices[0].delta.content)
        return said

    return once


def _anthropic(base_url: str):
    import anthropic

    client = anthropic.Anthropic(base_url=base_url.removesuffix("/v1"), api_key="sk-bench", max_retries=0)
    messages = [{"role": "user", "content": "go"}]

    def once() -> int:
        said = 0
        with client.messages.create(model="m-1", max_tokens=100, messages=messages, stream=True) as stream:
            for event in stream:
                if event.type == "content_block_delta" and event.delta.type == "text_delta":
                    said += len(event.delta.text)
        return said

    return once


def main() -> None:
    """Read as often as the command line says."""
    wire, base_url, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    once = {"openai": _openai, "openai-compatible": _chat, "anthropic": _anthropic}[wire](base_url)
    once()  # warm: imports, the connection
    cpu, wall, said = time.process_time(), time.perf_counter(), 0
    for _ in range(rounds):
        said += once()
    figures = {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall, "characters": said}
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
