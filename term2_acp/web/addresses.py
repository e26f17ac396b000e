"""Which addresses are the public internet, as one pure table.

A page that a model asks for must never be a way to this machine, its neighbours, or the metadata service of
a cloud. So an address is judged by the special-purpose registries of IANA (RFC 6890 and what came after it)
written out here. ``ipaddress.is_global`` is not asked: it changed between patch releases of Python.

Rules:

- IPv4: everything that is not in ``_NOT_PUBLIC_4``.
- IPv6: global unicast (2000::/3) alone, less ``_NOT_PUBLIC_6``. That leaves out loopback, link-local,
  unique-local, site-local, multicast and IPv4-compatible addresses by construction.
- An IPv6 address that *is* an IPv4 address (IPv4-mapped, and NAT64, by which networks without IPv4 reach the
  rest of the internet) is judged by the IPv4 address. 6to4 and Teredo carry one too, through relays that
  are gone, and are refused whole.
- A zone (``fe80::1%eth0``) makes an address local, whatever it is, and so does text that is no address.

A network's own NAT64 prefix and a machine's own public addresses look like any other: no table can tell.
"""

import ipaddress

_NOT_PUBLIC_4 = tuple(
    (ipaddress.IPv4Network(network), what)
    for network, what in (
        ("0.0.0.0/8", "an unspecified address"),
        ("10.0.0.0/8", "a private address"),
        ("100.64.0.0/10", "a provider's inner (CGNAT) address"),
        ("127.0.0.0/8", "a loopback address"),
        ("169.254.0.0/16", "a link-local address"),  # 169.254.169.254: a cloud's metadata
        ("172.16.0.0/12", "a private address"),
        ("192.0.0.0/24", "a reserved address"),
        ("192.0.2.0/24", "a documentation address"),
        ("192.88.99.0/24", "a 6to4 relay's address"),
        ("192.168.0.0/16", "a private address"),
        ("198.18.0.0/15", "a benchmarking address"),
        ("198.51.100.0/24", "a documentation address"),
        ("203.0.113.0/24", "a documentation address"),
        ("224.0.0.0/4", "a multicast address"),
        ("240.0.0.0/4", "a reserved address"),  # with 255.255.255.255, broadcast
    )
)

_PUBLIC_6 = ipaddress.IPv6Network("2000::/3")
_NOT_PUBLIC_6 = tuple(
    (ipaddress.IPv6Network(network), what)
    for network, what in (
        ("2001::/32", "a Teredo address"),
        ("2001::/23", "a reserved address"),  # benchmarking, ORCHID and the like
        ("2001:db8::/32", "a documentation address"),
        ("2002::/16", "a 6to4 address"),
        ("3fff::/20", "a documentation address"),
        # Outside of 2000::/3, and here for their names alone.
        ("::/128", "an unspecified address"),
        ("::1/128", "a loopback address"),
        ("fc00::/7", "a private address"),
        ("fe80::/10", "a link-local address"),
        ("ff00::/8", "a multicast address"),
    )
)

# In both, the IPv4 address is the last 32 bits.
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def not_public(address: str) -> str | None:
    """What an address is that must not be fetched from ("a loopback address"); None when it is public."""
    if "%" in address:
        return "an address with a zone"
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "no address"
    if isinstance(parsed, ipaddress.IPv6Address) and (parsed in _MAPPED or parsed in _NAT64):
        parsed = ipaddress.IPv4Address(int(parsed) & 0xFFFF_FFFF)
    if isinstance(parsed, ipaddress.IPv4Address):
        return next((what for network, what in _NOT_PUBLIC_4 if parsed in network), None)
    named = next((what for network, what in _NOT_PUBLIC_6 if parsed in network), None)
    return named if named is not None or parsed in _PUBLIC_6 else "a reserved address"
