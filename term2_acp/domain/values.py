"""How the house makes its values: as ``attrs.frozen`` does, for half of what that costs at import.

attrs writes and compiles ``__eq__``, ``__hash__`` and ``__repr__`` for each class, and an editor waits for
that: a new session needs dozens of classes, and hardly a value is compared or printed before it is answered.
Here these three are written once, for all values, and find out what they are about when they are first asked.
What is called all the time, ``__init__``, is compiled as ever.

A value means what it would with attrs alone: equal to another of the very same class whose fields are equal,
hashed accordingly, shown by its fields; ``field(eq=False)`` and ``field(repr=False)`` leave one out. A method
that a class defines by itself stays.
"""

import functools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # to a type checker it is the decorator that it stands for
    from attrs import frozen
else:
    import attrs

    def frozen(cls: type) -> type:
        """Make values of the class; see the module."""
        own = vars(cls)
        for name, method in _SHARED.items():
            if name not in own:
                setattr(cls, name, method)
        return _bare(cls)

    _bare = attrs.frozen(eq=False, repr=False)

__all__ = ["frozen"]


def _equal(self: Any, other: Any) -> Any:  # a bool, or NotImplemented
    if other.__class__ is not self.__class__:
        return NotImplemented
    compared = _compared(self.__class__)
    return compared(self) == compared(other)


def _hash(self: Any) -> int:
    return hash((self.__class__, _compared(self.__class__)(self)))


def _shown(self: Any) -> str:
    fields = (f"{each.name}={getattr(self, each.name)!r}" for each in self.__attrs_attrs__ if each.repr)
    return f"{self.__class__.__qualname__.rsplit('>.', 1)[-1]}({', '.join(fields)})"


@functools.cache
def _compared(cls: Any) -> Callable[[Any], object]:
    """What of a value of this class is compared."""
    names = [each.name for each in cls.__attrs_attrs__ if each.eq]
    return operator.attrgetter(*names) if names else lambda _value: ()


_SHARED = {"__eq__": _equal, "__hash__": _hash, "__repr__": _shown}
