"""How the house makes its classes: as ``frozen`` and ``define`` of attrs do, for half of what they cost.

attrs writes and compiles ``__eq__``, ``__hash__`` and ``__repr__`` for each class, and an editor waits for
that: a new session needs dozens of classes, and hardly an object is compared or printed before its answer.
Here these three are written once, for all classes, and find out what they are about when they are first
asked. What is called all the time, ``__init__``, is compiled as ever.

A class means what it would with attrs alone. A value is equal to another of the very same class whose fields
are equal, hashed accordingly where it is frozen, and shown by its fields; ``field(eq=False)`` and
``field(repr=False)`` leave one out. With ``eq=False`` an object is itself and no other. A method that a class
defines by itself stays. ``eq`` is the one option that there is.
"""

import functools
import operator
import reprlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:  # to a type checker they are what they stand for
    from attrs import define, frozen
else:

    def frozen(cls: type | None = None, *, eq: bool = True) -> Any:
        """Make a class whose objects never change; see the module."""
        return functools.partial(frozen, eq=eq) if cls is None else _made(cls, _bare_frozen, _hash, eq=eq)

    def define(cls: type | None = None, *, eq: bool = True) -> Any:
        """Make a class whose objects have a state; those that are compared by it cannot be hashed."""
        return functools.partial(define, eq=eq) if cls is None else _made(cls, _bare_define, None, eq=eq)


__all__ = ["define", "frozen"]

_bare_frozen = attrs.frozen(eq=False, repr=False)
_bare_define = attrs.define(eq=False, repr=False)


def _made(cls: type, make: Callable[[type], type], hash_of: Callable[[Any], int] | None, *, eq: bool) -> type:
    own = vars(cls)
    if "__repr__" not in own:
        cls.__repr__ = _shown  # type: ignore[assignment]
    if eq and "__eq__" not in own:
        cls.__eq__ = _equal  # type: ignore[assignment]
        if "__hash__" not in own:
            cls.__hash__ = hash_of  # type: ignore[assignment]
    return make(cls)


def _equal(self: Any, other: Any) -> Any:  # a bool, or NotImplemented
    if other.__class__ is not self.__class__:
        return NotImplemented
    compared = _compared(self.__class__)
    return compared(self) == compared(other)


def _hash(self: Any) -> int:
    return hash((self.__class__, _compared(self.__class__)(self)))


@reprlib.recursive_repr()
def _shown(self: Any) -> str:
    fields = (f"{each.name}={getattr(self, each.name)!r}" for each in self.__attrs_attrs__ if each.repr)
    return f"{self.__class__.__qualname__.rsplit('>.', 1)[-1]}({', '.join(fields)})"


@functools.cache
def _compared(cls: Any) -> Callable[[Any], object]:
    """What of a value of this class is compared."""
    names = [each.name for each in cls.__attrs_attrs__ if each.eq]
    return operator.attrgetter(*names) if names else lambda _value: ()
