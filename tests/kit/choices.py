"""Models for sessions to choose from, as real settings offer them (``indoors(offers=...)``)."""

from functools import partial

from term2_acp.config import Config, ModelSettings, ProviderSettings
from term2_acp.providers.choosing.choice import Resolved
from term2_acp.providers.choosing.offering import Offers
from term2_acp.providers.choosing.opening import Opener
from term2_acp.providers.choosing.resolve import resolve
from term2_acp.providers.servers.known import known_providers

# Nothing listens there: these are shown and chosen, and never asked.
NOWHERE = "http://127.0.0.1:9/v1"

LAB = ProviderSettings(
    "openai-compatible",
    base_url=NOWHERE,
    models=("sage", "plain"),
    catalog={"sage": ModelSettings(efforts=("low", "high")), "plain": ModelSettings(efforts=("low",))},
)


def offering(providers=None, model="lab/plain", effort="default", wanted=None):
    """What settings with ``LAB`` offer. ``model`` is the process's own there, or ``wanted`` is sought."""

    def offers(own):
        config = Config(providers={"lab": LAB, **(providers or {})}, model=model, effort=effort)
        resolved = resolve(config, {}, None)
        assert isinstance(resolved, Resolved), resolved
        if wanted is not None:
            resolved = Resolved(wanted)
        opener = Opener(resolved, idle_s=1.0, state=None)
        return Offers(opener, own, partial(known_providers, config, {}))

    return offers


def scripted(root, name):
    """The settings of a provider whose model says who it is."""
    path = root / f"{name}.toml"
    path.write_text(f'[[rules]]\n[[rules.replies]]\nsteps = [{{ text = "I am {name}." }}]\n')
    return ProviderSettings("scripted", script=str(path))
