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
