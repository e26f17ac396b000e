"""Why a name was refused, in one line, with what could have been meant. Pure.

The candidates that are near come first, and there are never more than ``MOST``: a router has 400 models. Each
is written so that it can be given to ``--model`` as it stands: ``provider/model``, and the bare id where the
provider is named too, since the whole string is an id then.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from term2_acp.providers.choosing.listed import Listed
from term2_acp.providers.servers.known import Known

MOST = 8
# Providers that a refusal names. There are as many presets, and rarely a table more.
MOST_PROVIDERS = 16

_PATTERN = re.compile(r"[*?\[\]{}\s]")
# How alike two ids have to be, as difflib counts.
_NEAR = 0.5
# Names that are compared in full, which takes a tenth of a millisecond each: those that promise most. A
# session's other turns wait meanwhile.
_MOST_COMPARED = 64
# Servers of which is told why nobody knows their models.
_MOST_SILENT = 2
# Characters of an id that are repeated.
_MOST_SHOWN = 200


def is_pattern(model: str) -> bool:
    """Whether an id that nobody lists is none: it has white space, signs with which many are meant, or what
    cannot be shown. A stray byte of the command line could not even be sent.
    """
    return _PATTERN.search(model) is not None or not model.isprintable()


def unknown_provider(name: str, known: Mapping[str, Known]) -> str:
    """That no provider has this name."""
    import difflib  # only for a refusal, here and below

    near = difflib.get_close_matches(name, known, n=3)
    names = list(dict.fromkeys((*near, *known)))
    more = ", ..." if len(names) > MOST_PROVIDERS else ""
    return f"unknown provider {quoted(name)}; there are {', '.join(names[:MOST_PROVIDERS])}{more}"


def ambiguous(model: str, found: Iterable[tuple[str, str]]) -> str:
    """That a name means several things. ``provider/model`` alone need not tell them apart."""
    ways = [f"--provider {provider} --model {each}" for provider, each in found]
    return f"model {quoted(model)} is ambiguous; say which: {', '.join(ways[:MOST])}"


def several(provider: str, ids: Sequence[str]) -> str:
    """That no model is named, and the server has several.

    The ids are bare ones: they are understood whether or not the provider is named.
    """
    return f"no model is set; {provider} has {_listed(ids)}"


def unknown(
    model: str,
    providers: Sequence[tuple[Known, Listed]],
    others: Sequence[Known] = (),
    *,
    bare: bool = False,
) -> str:
    """That no provider has this model: the ones that are near, and how to name one that is not listed.

    ``others`` are servers that have the model, and of which the key is missing. ``bare`` says that the
    provider is named apart from the model.
    """
    names = [each if bare else f"{known.name}/{each}" for known, listed in providers for each in listed.ids]
    near = list(near_to(model, names))
    names = list(dict.fromkeys((*near, *names)))
    unlisted = [
        f"{known.name}/MODEL"
        for known, listed in providers
        if listed.silence is not None and not known.problem
    ]
    shown = _listed(names, unlisted)
    hints = (_newer(providers), _remembered(providers), _elsewhere(model, others))
    said = "; ".join([f"unknown model {quoted(model)}", f"there are {shown or 'none'}", *filter(None, hints)])
    # Why there are none to name: the server may have the very model.
    silent = [listed.silence for _, listed in providers if listed.silence][:_MOST_SILENT]
    return ". ".join([said, " ".join(silent)]) if silent else said


def _listed(names: Sequence[str], more: Sequence[str] = ()) -> str:
    return ", ".join([*names[:MOST], *(["..."] if len(names) > MOST else []), *more[:MOST]])


def near_to(model: str, names: Sequence[str]) -> Iterator[str]:
    """The names that may have been meant, the nearest first; all that fit, where ``model`` is a pattern."""
    import difflib
    from fnmatch import fnmatchcase

    if len(model) > _MOST_SHOWN:
        return  # nothing is near it, and finding that out takes seconds
    if any(sign in model for sign in "*?["):
        for name in names:
            if fnmatchcase(name, model) or fnmatchcase(name.partition("/")[2], model):
                yield name
        return
    matcher = difflib.SequenceMatcher(b=model.lower())
    bounds: list[tuple[float, str]] = []
    for name in names:
        # Both are quick bounds of the ratio, the first a very quick one.
        bound = 0.0
        for way in _ways(name):
            matcher.set_seq1(way)
            if matcher.real_quick_ratio() > max(bound, _NEAR):
                bound = max(bound, matcher.quick_ratio())
        if bound > _NEAR:
            bounds.append((bound, name))
    scored: list[tuple[float, str]] = []
    for _, name in sorted(bounds, key=lambda each: -each[0])[:_MOST_COMPARED]:
        best = 0.0
        for way in _ways(name):
            matcher.set_seq1(way)
            best = max(best, matcher.ratio())
        if best > _NEAR:
            scored.append((best, name))
    yield from (name for _, name in sorted(scored, key=lambda each: -each[0])[:MOST])


def _ways(name: str) -> Iterable[str]:
    """A router's ids have the vendor before them, and a person may leave either out."""
    return {way.lower() for way in (name, name.partition("/")[2], name.rpartition("/")[2])}


def quoted(model: str) -> str:
    """What the person typed, on one line, and not much of it: an argument may have 128 KiB."""
    return repr(model if len(model) <= _MOST_SHOWN else f"{model[:_MOST_SHOWN]}...")


def _remembered(providers: Sequence[tuple[Known, Listed]]) -> str:
    """How to have a server asked again that was asked not long ago."""
    file = next((listed.file for _, listed in providers if listed.file is not None), None)
    return f"what a server said is remembered in {file}, and is asked anew without it" if file else ""


def _newer(providers: Sequence[tuple[Known, Listed]]) -> str:
    """How to use a model that is newer than the catalog."""
    names = [known.name for known, listed in providers if listed.of_catalog]
    if not names:
        return ""
    where = f"[providers.{names[0]}]" if len(names) == 1 else "its [providers.NAME]"
    return f"a model that is newer than the catalog can be listed in `models` of {where}"


def _elsewhere(model: str, others: Sequence[Known]) -> str:
    """The servers that would have the model."""
    ways = [f"{known.name}/{model} with {known.key_source}" for known in others]
    return f"it would be {' or '.join(ways[:2])}" if ways else ""
