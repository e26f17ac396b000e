"""The names of the servers whose address nobody has to write.

``providers`` has the table of them, a floor above; a test holds the two together. What stands here is what
the settings need of it: a provider with one of these names may leave ``base_url`` out.
"""

PRESET_NAMES = frozenset(
    {
        "anthropic",
        "deepseek",
        "gemini",
        "groq",
        "llama.cpp",
        "lmstudio",
        "mistral",
        "ollama",
        "openai",
        "openrouter",
        "vllm",
    }
)
