"""A model that is looked for with a prompt (``ModelSource``): nobody is asked before somebody needs it.

Theory of operation. The first prompt asks all servers side by side, within a bound. The first of them in the
order of preference that lists a suitable model is taken, for the life of the process; the moment this is
certain, the others are left. Of two prompts at once, one looks and the other waits for it. What was not found
is not remembered: the next prompt looks again, so a server that is started late is found. The embedded model,
where it stands in, is kept like any other: a conversation that never left this machine is not handed to
whatever begins to listen later.

Rules:

- On the usual ports of this machine the first suitable model is taken, and one that is loaded rather than one
  that is not; the person is told by the log. A model that only embeds or ranks is not suitable.
- A server that the person named must have one suitable model alone; else the prompt ends with the candidates.
- Nothing here is sent to a server but the question which models it has.
"""

import logging
from collections.abc import Callable, Iterable

from term2_acp.domain.classes import frozen
from term2_acp.providers.base import ModelSource, NotUsable
from term2_acp.providers.choosing.candidates import several
from term2_acp.providers.choosing.choice import Undecided
from term2_acp.providers.choosing.source import Later
from term2_acp.providers.servers.asking import Answers, ask_all
from term2_acp.providers.servers.known import Known
from term2_acp.providers.servers.listing import Listing

_log = logging.getLogger(__name__)

# Seconds that the usual ports of this machine have to answer, all together. A server that runs answers in
# milliseconds; a port that drops packets must not hold the first prompt up.
PORTS_S = 1.0
# Seconds for the servers of the settings, which may be far away.
SERVERS_S = 3.0


OpenModel = Callable[[Known, str], ModelSource]
"""Makes the source of a provider's model, once it is found."""

Heard = Callable[[Iterable[Known], Answers], None]
"""Told which servers were asked, and what they said."""


def _heard_by_nobody(servers: Iterable[Known], answers: Answers) -> None:
    del servers, answers


@frozen
class Taken:
    """The server that is taken, with its model, or with the several of which none may be taken unasked."""

    provider: Known
    models: tuple[str, ...]


def taken(wanted: Undecided, answers: Answers) -> Taken | None:
    """The server to take; None while that cannot be told, since one before it has not answered, or never."""
    for known in wanted.servers:
        answer = answers.get(known.name)
        if answer is None:
            return None
        best = answer.first_suitable() if isinstance(answer, Listing) else None
        if isinstance(answer, Listing) and best is not None:
            talkers = tuple(each.id for each in answer.models if each.talks)
            return Taken(known, (best.id,) if wanted.any_model else talkers)
    return None


class Discovered(Later):
    """Looks for a model with the first prompt (``ModelSource``). ``heard`` is told what the servers said."""

    def __init__(
        self,
        wanted: Undecided,
        open_model: OpenModel,
        seconds: float | None = None,
        *,
        heard: Heard = _heard_by_nobody,
    ) -> None:
        super().__init__(self._find)
        self._wanted = wanted
        self._open = open_model
        self._heard = heard
        self._seconds = seconds or (PORTS_S if wanted.any_model else SERVERS_S)

    async def _find(self) -> ModelSource:
        answers = await ask_all(self._wanted.servers, self._seconds, enough=self._decides)
        self._heard(self._wanted.servers, answers)
        found = taken(self._wanted, answers)
        if found is not None and len(found.models) > 1:
            raise NotUsable(several_sentence(found))
        if found is not None:
            model, known = found.models[0], found.provider
            _log.warning("no model is set: %s is taken, from %s at %s", model, known.name, known.base_url)
            return self._open(known, model)
        if self._wanted.otherwise is not None:
            embedded = self._wanted.otherwise
            _log.warning("no model is set, and no model server answers: the embedded model is taken")
            return self._open(embedded, embedded.models[0])
        raise NotUsable(nothing_sentence(self._wanted, answers))

    def _decides(self, answers: Answers) -> bool:
        return taken(self._wanted, answers) is not None


def several_sentence(found: Taken) -> str:
    """That a model has to be named, and which there are."""
    words = several(found.provider.name, found.models)
    return f"{words[:1].upper()}{words[1:]}. Name one as `model` in settings.toml."


def nothing_sentence(wanted: Undecided, answers: Answers) -> str:
    """Why no server could be taken, and what to do."""
    if wanted.nothing:
        return wanted.nothing
    for name, answer in answers.items():
        if not isinstance(answer, Listing):
            return answer.error.message
        return f"The model server of {name} has no model that can be talked to. Load one, and try again."
    return "No model server is configured."
