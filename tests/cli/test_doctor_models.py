"""What ``term2 doctor`` says of the model that would be used: resolved as a start resolves it, its server
asked within bounds, the servers of this machine found. Servers are real, and their calls are looked at."""

import json
import sys

import pytest
import trio

from term2_acp.cli import checks_models
from term2_acp.cli.health import (
    Health,
    Level,
    LocalServer,
    Machine,
    ModelHealth,
    ProviderHealth,
    ProvidersHealth,
    RipgrepHealth,
    SandboxHealth,
    SettingsHealth,
    StoreHealth,
)
from term2_acp.cli.report import Screen, to_text
from term2_acp.config import load
from tests.kit.home import Home
from tests.kit.listing import lists, preset_at, routes
from tests.kit.model_server import never, open_model_server, status

# A test waits for an event, and this long only when something is broken.
LONG_S = 30.0

KEY = "sk-canary-0123456789"


@pytest.fixture
def ports(monkeypatch):
    """The servers of this machine, instead of whatever listens here."""
    found = []
    monkeypatch.setattr(checks_models, "discoverable", lambda: tuple(found))
    return found


def home_of(root, base_url, extra="", table=""):
    lines = [extra, "[providers.lab]", 'type = "openai-compatible"', f'base_url = "{base_url}"', table]
    return Home.make(root, None, "\n".join(lines))


async def examined(home, **environment):
    environ = home.environment(**environment)
    with trio.fail_after(LONG_S):
        health, choice = await trio.to_thread.run_sync(checks_models.check_providers, load(environ), environ)
        return await checks_models.check_servers(health, choice)


async def test_the_model_of_a_start_and_what_its_server_says(tmp_path, ports):
    models = {"data": [{"id": "m", "max_model_len": 4096}]}
    async with open_model_server(routes({"/v1/models": models})) as server:
        home = home_of(tmp_path, server.base_url, 'model = "lab/m"', 'api_key_env = "LAB_KEY"')
        found = await examined(home, LAB_KEY=KEY)
        assert (found.level, found.problems, found.chosen, found.model) == (Level.OK, (), "lab", "m")
        assert found.about == ModelHealth(
            "Chat Completions", "LAB_KEY", 4096, None, sees_images=False, priced=False, answers=True
        )
        assert found.local_servers == ()
        assert KEY not in repr(found)
        assert server.calls[0].headers["authorization"] == f"Bearer {KEY}"
        # Once to know the models, as a start asks, and once to see it answer; nothing is kept.
        assert [call.path for call in server.calls] == ["/v1/models"] * 2
        assert not home.state.exists()


async def test_a_server_that_refuses_the_key(tmp_path, ports):
    async with open_model_server(status(401, '{"error": {"message": "no"}}')) as server:
        home = home_of(tmp_path, server.base_url, "", 'models = ["m"]\napi_key_env = "LAB_KEY"')
        found = await examined(home, LAB_KEY=KEY)
    assert (found.level, found.about.answers) == (Level.LESS, True)
    assert "refuses the key (401)" in found.problems[0]
    assert "LAB_KEY" in found.problems[0]


async def test_a_server_without_a_list_is_fine(tmp_path, ports):
    async with open_model_server(status(404, "")) as server:
        found = await examined(home_of(tmp_path, server.base_url, "", 'models = ["m"]'))
    assert (found.level, found.about.answers) == (Level.OK, True)


@pytest.mark.parametrize("running", [True, False])
async def test_a_server_that_does_not_answer(tmp_path, ports, monkeypatch, running):
    monkeypatch.setattr(checks_models, "SERVER_S", 0.3)
    async with open_model_server(never) as server:
        home = home_of(tmp_path, server.base_url, "", 'models = ["m"]')
        if running:
            found = await examined(home)
    if not running:
        found = await examined(home)
    assert (found.level, found.chosen, found.about.answers) == (Level.LESS, "lab", False)
    assert len(found.problems) == 1
    assert ("did not say within 0.3 s" if running else "cannot be reached") in found.problems[0]


async def test_a_warning_of_the_start_is_said_once(tmp_path, ports):
    async with open_model_server() as server:
        home = home_of(tmp_path, server.base_url, 'model = "lab/m"')
    found = await examined(home)
    assert (found.level, found.model, found.about.answers) == (Level.LESS, "m", False)
    (problem,) = found.problems
    assert problem.endswith("The model 'm' is taken as written.")


async def test_what_a_first_prompt_would_find_on_this_machine(tmp_path, ports):
    home = Home.make(tmp_path, None)
    models = {"data": [{"id": "embed"}, {"id": "m", "max_model_len": 4096}]}
    async with (
        open_model_server(status(404, "")) as website,
        open_model_server(routes({"/v1/models": models})) as first,
        open_model_server(lists("x")) as second,
    ):
        ports += [
            preset_at("ollama", website.base_url),
            preset_at("llama.cpp", first.base_url),
            preset_at("vllm", second.base_url),
        ]
        health, choice = checks_models.check_providers(load(home.environment()), home.environment())
        assert (health.chosen, choice.any_model) == (None, True)
        choice = choice._replace(servers=tuple(ports))
        found = await checks_models.check_servers(health, choice)
    assert (found.level, found.chosen, found.model) == (Level.OK, "llama.cpp", "m")
    assert found.about.context_tokens == 4096
    assert found.local_servers == (
        LocalServer("llama.cpp", first.base_url, ("m",)),
        LocalServer("vllm", second.base_url, ("x",)),
    )


async def test_nothing_to_be_found(tmp_path, ports, monkeypatch):
    monkeypatch.setattr(checks_models, "find_weights", lambda: None)
    home = Home.make(tmp_path, None)
    health, choice = checks_models.check_providers(load(home.environment()), home.environment())
    found = await checks_models.check_servers(health, choice._replace(servers=()))
    assert (found.level, found.chosen) == (Level.LESS, None)
    assert found.problems[0].startswith("No model is configured. Set OPENAI_API_KEY")


async def test_a_server_of_the_settings_with_several_models(tmp_path, ports):
    async with open_model_server(lists("a", "b")) as server:
        found = await examined(home_of(tmp_path, server.base_url))
    assert (found.level, found.chosen) == (Level.LESS, None)
    assert found.problems == ("No model is set; lab has a, b. Name one as `model` in settings.toml.",)


async def test_the_program_asks_and_says_so(tmp_path):
    async with open_model_server(lists("m")) as server:
        home = home_of(tmp_path, server.base_url, 'provider = "lab"')
        with trio.fail_after(2 * LONG_S):
            done = await trio.run_process(
                [sys.executable, "-m", "term2_acp", "doctor", "--json"],
                env=home.environment(),
                capture_stdout=True,
                check=False,
            )
    found = json.loads(done.stdout)["providers"]
    assert (found["chosen"], found["model"], found["about"]["answers"]) == ("lab", "m", True)


def test_how_a_person_reads_it():
    known = (
        ProviderHealth("lab", "openai-compatible", True, ("m",), "http://h/v1", "set", "LAB_KEY"),
        ProviderHealth("groq", "openai-compatible", False, ("g",), "https://g/v1", "missing", problem="P."),
        ProviderHealth("vllm", "openai-compatible", False, (), "http://v/v1", "none"),
    )
    about = ModelHealth("Messages", "LAB_KEY", 1_000_000, 64_000, sees_images=True, priced=True, answers=True)
    servers = (LocalServer("ollama", "http://o/v1", ("a", "b")),)
    providers = ProvidersHealth(Level.OK, (), "lab", "m", known, about, servers)
    others = (SandboxHealth, RipgrepHealth, SettingsHealth)
    sandbox, ripgrep, settings = (part(Level.OK) for part in others)
    machine = Machine("0", "3", "Linux 1", "x", root=False)
    text = to_text(Health(sandbox, ripgrep, settings, providers, StoreHealth(Level.OK), machine), Screen())
    assert (
        text.partition("providers: ok\n")[2].partition("\n\n")[0]
        == """\
  in use           lab, model m
  asked            over Messages, with the key of LAB_KEY
  limits           1,000,000 tokens of context; 64,000 of a reply; sees images; priced
  its server       answers
  on this machine  ollama at http://o/v1 (2 models)
  lab              openai-compatible; http://h/v1; m; key set by LAB_KEY
  by name too      groq, vllm"""
    )
