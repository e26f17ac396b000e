"""The loop that lets a model work: one turn, its calls of the model, and its rounds of tool calls.

Rules of the room:

- It knows no protocol, no storage and no serialiser. What it needs of the world it gets by the ports in
  ``turn.TurnPorts``.
- Everything it tells the world is an event, and everything a provider is told is folded from events.
- Nothing under the turn's cancel scope reports the end of a call that was cancelled: the settle step
  does, from ``calls.OpenCalls``, once the scope is left.
"""
