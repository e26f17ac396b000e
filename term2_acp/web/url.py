"""A URL that a page may be fetched from: read once, strictly, and never taken apart again.

Two readers of one URL who disagree about its host are how a check is got round. So the text is read in one
place, here, and what is shown, checked, looked up, connected to and sent all comes from the value that it
was read into. What readers are known to disagree about is refused: backslashes, white space and control
characters, names with a percent sign, and every spelling of an IPv4 address but four decimal numbers
(``2130706433``, ``0x7f.1`` and ``127.1`` are loopback to some resolvers).

A host in letters outside ASCII becomes its punycode form, which is what goes over the wire; both are shown.
"""

import ipaddress
import re
from urllib.parse import urljoin

from attrs import field, frozen

# Characters of a URL, as typed and as sent. Longer ones carry data rather than name a page.
MAX_URL_CHARS = 2000
# Characters of the parser's own complaint that are handed on: it quotes the URL.
_MAX_COMPLAINT = 120

_DEFAULT_PORTS = {"http": 80, "https": 443}
# Letters, digits, hyphens, and the underscore that some names have in spite of the standard.
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*", re.ASCII)
# A last label that resolvers read as a number makes the whole name an IPv4 address.
_ENDS_IN_A_NUMBER = re.compile(r"(^|\.)([0-9]+|0x[0-9a-f]*)\Z", re.ASCII)
_UNSEEN = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")


class UrlRefused(Exception):
    """The URL cannot be fetched. ``reason`` is a sentence for the model and the person."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@frozen
class PublicUrl:
    """One URL, in the form in which it is sent; made by ``parse_url``.

    ``host`` is a name in ASCII or an address without brackets, in lower case and without a dot at its end;
    ``target`` is the path and the query. ``own_letters`` is the host as its readers write it, where that
    is not ASCII. There is no user, no password and no fragment.
    """

    scheme: str
    host: str
    port: int
    target: str
    own_letters: str | None = field(default=None, eq=False)

    @property
    def text(self) -> str:
        """The whole URL, in ASCII."""
        return f"{self.scheme}://{self.authority}{self.target}"

    @property
    def authority(self) -> str:
        """The host, and the port unless it is the scheme's own: what the ``Host`` header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def place(self) -> str:
        """Where the request goes, for a person: the authority, and a host's own letters behind it."""
        return f"{self.authority} ({self.own_letters})" if self.own_letters else self.authority

    @property
    def literal(self) -> bool:
        """Whether the host is an address, so that there is nothing to look up."""
        return _address_of(self.host) is not None

    def join(self, location: str) -> "PublicUrl":
        """Where a redirect from here to ``location`` leads.

        Raises:
            UrlRefused: nowhere that may be fetched.
        """
        try:
            return parse_url(urljoin(self.text, location))
        except ValueError:
            raise UrlRefused("It is no URL.") from None

    def leads_to(self, target: "PublicUrl") -> bool:
        """Whether a redirect to ``target`` stays where the person has allowed to go.

        The very same host and port; a host may also move from http to https, each on its own port. Another
        name is another host, however alike, and a step back to http is the person's to take.
        """
        if target.host != self.host:
            return False
        ends = (self.scheme, self.port), (target.scheme, target.port)
        return ends[0] == ends[1] or ends == (("http", 80), ("https", 443))


def parse_url(text: str) -> PublicUrl:
    """Read a URL; its fragment is dropped. Nothing is looked up.

    Raises:
        UrlRefused: it is not http or https, or not one that everybody reads alike.
    """
    if len(text) > MAX_URL_CHARS:
        raise UrlRefused(f"A URL may have {MAX_URL_CHARS:,} characters; this one has {len(text):,}.")
    if _UNSEEN.search(text) or "\\" in text:
        raise UrlRefused(
            "A URL holds no white space, control characters or backslashes; write them as %20 and the like."
        )
    import httpx2  # heavy: not before the first URL

    try:
        parsed = httpx2.URL(text)
        scheme, host, port = parsed.scheme, parsed.raw_host.decode("ascii"), parsed.port
        target, own_letters, userinfo = parsed.raw_path.decode("ascii"), parsed.host, parsed.userinfo
    except (httpx2.InvalidURL, ValueError) as error:
        complaint = str(error) if isinstance(error, httpx2.InvalidURL) else "it holds what is no text"
        raise UrlRefused(f"This is no URL: {complaint[:_MAX_COMPLAINT]}") from None
    if scheme not in _DEFAULT_PORTS:
        raise UrlRefused("Only URLs that begin with http:// or https:// can be fetched.")
    if userinfo:
        raise UrlRefused("A URL with a user name or a password in it is not fetched.")
    if port is None:
        port = _DEFAULT_PORTS[scheme]
    if not 1 <= port <= 65535:
        raise UrlRefused(f"There is no port {port}.")
    name = _canonical_host(host)
    own = own_letters.removesuffix(".") if not own_letters.isascii() else None
    url = PublicUrl(scheme, name, port, target or "/", own)
    if len(url.text) > MAX_URL_CHARS:
        raise UrlRefused(
            f"With its letters percent-encoded the URL is longer than {MAX_URL_CHARS:,} characters."
        )
    return url


def _canonical_host(host: str) -> str:
    """The one spelling of a host.

    Raises:
        UrlRefused: it is none, or one that is read differently by different programs.
    """
    address = _address_of(host)
    if address is not None:
        return str(address)
    name = host.removesuffix(".")
    if not name:
        raise UrlRefused("The URL names no host.")
    if "%" in host or ":" in host or not _NAME.fullmatch(name):
        raise UrlRefused("The URL's host is neither a name nor an address.")
    if _ENDS_IN_A_NUMBER.search(name):
        raise UrlRefused("An IPv4 address is written as four decimal numbers, such as 192.0.2.1.")
    return name


def _address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    if "%" in host:
        return None  # Python takes a zone for a part of the address
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
