"""Text that is Unicode. Pure.

JSON can write half of a surrogate pair, and Python's ``str`` can hold it; UTF-8, the editor and the store
cannot. What comes from a model passes here before it goes anywhere else.
"""


def is_well_formed(text: str) -> bool:
    """Whether the text holds no surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def well_formed(text: str) -> str:
    """The text with its pairs of surrogates joined, and U+FFFD for each lone one."""
    if is_well_formed(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class TextPieces:
    """Text that arrives in pieces. A pair of surrogates may be cut in two between them: its first half waits
    for the other.
    """

    def __init__(self) -> None:
        self._half = ""

    def take(self, piece: str) -> str:
        """Take a piece; return what is certain by now, as Unicode. It may be empty."""
        if not self._half and (piece.isascii() or is_well_formed(piece)):
            return piece
        text = self._half + piece
        cut = "\ud800" <= text[-1:] <= "\udbff"
        self._half = text[-1] if cut else ""
        return well_formed(text[:-1] if cut else text)

    def end(self) -> str:
        """No more comes: what stands for a half whose other half never came, "" without one."""
        half, self._half = self._half, ""
        return "\ufffd" if half else ""
