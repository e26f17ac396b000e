"""What is known of a provider's models without asking its server: what the settings say, and the catalog."""

from term2_acp.config import ModelSettings
from term2_acp.providers.catalog.catalog import base_info, catalog_info, overlay
from term2_acp.providers.request import ModelInfo
from term2_acp.providers.servers.facts import ServerFacts
from term2_acp.providers.servers.known import Known


def is_described(provider: Known, model: str) -> bool:
    """Whether the settings or the catalog describe the model, so that its server need not be asked."""
    settings = _of_settings(provider, model)
    by_hand = settings is not None and settings.context_tokens is not None
    return by_hand or _of_catalog(provider, model) is not None


def describe(provider: Known, model: str, told: ServerFacts | None = None) -> ModelInfo:
    """What the settings, the server (``told``) and the catalog say, in this order."""
    return overlay(base_info(provider.catalog, model), _of_settings(provider, model), told)


def _of_catalog(provider: Known, model: str) -> ModelInfo | None:
    return catalog_info(provider.catalog, model) if provider.catalog is not None else None


def _of_settings(provider: Known, model: str) -> ModelSettings | None:
    return provider.settings.catalog.get(model) if provider.settings is not None else None
