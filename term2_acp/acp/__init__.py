"""The doors: what ACP clients see of term2.

Rules of the room:

- A door translates and routes. It decides nothing about sessions, tools or permission.
- Wire types live here and nowhere else; inside, events and values of ``domain`` are spoken.
- One package a protocol version. The versions never import each other: what looks like duplication
  between them is intended, since they will diverge.
- What a peer sends is refused with the JSON path of the bad member, and costs nothing but that answer.
"""
