"""Asking model servers which models they have, and what they know of one.

Rules:

- A server is asked at the address that prompts go to, with the key that they are sent with. Ollama, llama.cpp
  and LM Studio tell more at addresses of their own, beside the compatible ones; they are asked there too, and
  an answer that is none changes nothing.
- A list has a bounded number of bytes, pages and models. What could not be read to its end is not ``whole``.
- Ollama and LM Studio decide how large a model's context is when they load it, by their own settings and the
  memory that there is. What a model could have is then no more than a bound: what is loaded counts, and what
  is not is to be asked again once it is (``ServerModel.fleeting``).
- Nothing here keeps a clock: whoever asks has a cancel scope. Faults are values (``NoList``).
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from attrs import evolve

from term2_acp.domain.classes import frozen
from term2_acp.providers.base import ProviderError, StreamBroke
from term2_acp.providers.faults import Faults
from term2_acp.providers.servers.facts import ServerFacts
from term2_acp.providers.servers.known import Known
from term2_acp.providers.servers.listing import (
    MAX_MODELS,
    Listing,
    Page,
    ServerModel,
    least,
    read_models,
    read_props,
    read_running,
    read_show,
)
from term2_acp.providers.servers.presets import MESSAGES
from term2_acp.providers.servers.wires import wire_of
from term2_acp.redact import Redactor
from term2_acp.web.client import HttpClient, HttpExchange
from term2_acp.web.faults import HttpFault

# Bytes of one answer. OpenRouter's list of 400 models has 0.7 MiB.
MAX_BODY_BYTES = 2 * 1024 * 1024
# Pages of a list that comes in pages, of up to a thousand models each.
MAX_PAGES = 5

# What servers that nobody named call the owner of their models.
_OWNERS = {"llamacpp": "llama.cpp", "library": "ollama", "organization_owner": "lmstudio"}


@frozen
class NoList:
    """The server named no models. ``error`` tells the person why; ``answered``: it said something else."""

    error: ProviderError
    answered: bool


class ModelServer:
    """One server, asked over a client that lives as long as this object (``aclose``)."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self._client = HttpClient(known.base_url)
        self._base = known.base_url.rstrip("/")
        self._root = self._base.removesuffix("/v1")
        self._headers = {"accept": "application/json", **wire_of(known).headers(known.key, "")}
        self._faults = Faults(known.name, known.key_source, (known.key,) if known.key else ())

    async def models(self) -> Listing | NoList:
        """Wait for the list of models. Cancelled, the connection is closed."""
        listing = await self._all_models()
        if isinstance(listing, NoList):
            return listing
        # What a server calls its models is kept and shown, so none of it may be the key that it was given.
        redactor = Redactor(self._faults.secrets)
        clean = (m for m in listing.models if redactor.redact(f"{m.id} {m.owner}") == f"{m.id} {m.owner}")
        return evolve(listing, models=tuple(clean))

    async def _all_models(self) -> Listing | NoList:
        kind = self.known.like.name if self.known.like is not None else ""
        own = {"ollama": "/api/tags", "lmstudio": "/api/v0/models"}.get(kind)
        if own is not None:
            page = await self._page(self._root + own)
            if isinstance(page, Page):
                return Listing(page.models, page.whole)
            if not page.answered:
                return page
        return await self._pages()

    async def about(self, model: str) -> Listing | NoList:
        """Wait for the list, in which this model has all that its server tells of it."""
        listing = await self.models()
        if isinstance(listing, NoList):
            return listing
        entry = listing.named(model) or ServerModel(model)
        told = evolve(await self._more(entry), told=True)
        if listing.named(model) is None:
            return Listing((*listing.models, told), whole=False) if told.facts != ServerFacts() else listing
        return evolve(listing, models=tuple(told if each is entry else each for each in listing.models))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _more(self, entry: ServerModel) -> ServerModel:
        """The entry, with what its server tells of this model alone."""
        like = self.known.like
        kind = like.name if like is not None and like.port is not None else _OWNERS.get(entry.owner)
        match kind:
            case "llama.cpp":
                body = await self._get(f"{self._root}/props")
                return _with(entry, read_props(body)) if isinstance(body, bytes) else entry
            case "ollama":
                return await self._ollama(entry)
            case "lmstudio" if like is None:
                page = await self._page(f"{self._root}/api/v0/models")
                found = Listing(page.models).named(entry.id) if isinstance(page, Page) else None
                told = entry if found is None else evolve(_with(entry, found.facts), loaded=found.loaded)
                return evolve(told, fleeting=True)
            case "lmstudio":
                return evolve(entry, fleeting=True)
        return entry

    async def _ollama(self, entry: ServerModel) -> ServerModel:
        body = await self._post(f"{self._root}/api/show", {"model": entry.id})
        told = _with(entry, read_show(body)) if isinstance(body, bytes) else entry
        body = await self._get(f"{self._root}/api/ps")
        running = read_running(body, entry.id) if isinstance(body, bytes) else None
        context = least(running, told.facts.context_tokens)
        facts = evolve(told.facts, context_tokens=context)
        return evolve(told, facts=facts, loaded=running is not None, fleeting=True)

    async def _pages(self) -> Listing | NoList:
        url = f"{self._base}/models"
        first = page = await self._page(url + "?limit=1000" if self.known.type == MESSAGES else url)
        if isinstance(first, NoList):
            return first
        models = {model.id: model for model in first.models}
        for _number in range(1, MAX_PAGES):
            if not isinstance(page, Page) or page.next_after is None or len(models) > MAX_MODELS:
                break
            from urllib.parse import quote  # where there is a second page

            page = await self._page(f"{url}?limit=1000&after_id={quote(page.next_after, safe='')}")
            if isinstance(page, Page):
                models.update((model.id, model) for model in page.models)
        whole = isinstance(page, Page) and page.whole and page.next_after is None
        if self.known.catalog == "google":
            models = {name.removeprefix("models/"): model for name, model in models.items()}
        found = (evolve(model, id=name) for name, model in models.items())
        return Listing(tuple(found)[:MAX_MODELS], whole and len(models) <= MAX_MODELS)

    async def _page(self, url: str) -> Page | NoList:
        body = await self._get(url)
        if isinstance(body, NoList):
            return body
        page = read_models(body)
        if page is None:
            return self._no_list(
                "answers with something else than a list of models", "Is its base_url right?"
            )
        return page

    async def _get(self, url: str) -> bytes | NoList:
        async with self._client.get(url, self._headers) as exchange:
            return await self._body(exchange)

    async def _post(self, url: str, value: Mapping[str, Any]) -> bytes | NoList:
        headers = {**self._headers, "content-type": "application/json"}
        async with self._client.post(url, headers, msgspec.json.encode(value)) as exchange:
            return await self._body(exchange)

    async def _body(self, exchange: HttpExchange) -> bytes | NoList:
        head = await exchange.head()
        if isinstance(head, HttpFault):
            return NoList(self._faults.of_network(head).error, answered=False)
        body = bytearray()
        while data := await head.receive():
            if isinstance(data, HttpFault):
                return NoList(self._faults.of_network(data).error, answered=False)
            body += data
            if len(body) > MAX_BODY_BYTES:
                return self._no_list("has a list of models that is too long", "List yours in the settings.")
        if not 200 <= head.status < 300:
            error = self._faults.of_status(head.status, head.headers, bytes(body)).error
            return NoList(error, answered=True)
        return bytes(body)

    def _no_list(self, what: str, advice: str) -> NoList:
        return NoList(self._faults.sentence(StreamBroke, what, "", advice), answered=True)


def _with(entry: ServerModel, more: ServerFacts) -> ServerModel:
    """The entry with the facts of this model alone laid over those that it has in the list."""
    known = entry.facts
    facts = ServerFacts(
        more.context_tokens or known.context_tokens,
        more.output_tokens or known.output_tokens,
        known.sees_images if more.sees_images is None else more.sees_images,
        known.prices if more.prices is None else more.prices,
    )
    return evolve(entry, facts=facts)
