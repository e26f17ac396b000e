"""Reading a URL: one strict reading, one spelling of a host, and no form that another program would read as
another place. Whatever was typed, what is shown is what is sent."""

import pytest

from term2_acp.web.url import MAX_URL_CHARS, UrlRefused, parse_url


@pytest.mark.parametrize(
    ("typed", "text", "place"),
    [
        ("http://example.org", "http://example.org/", "example.org"),
        ("HTTPS://EXAMPLE.org.:443/a/../b?c=d#part", "https://example.org/b?c=d", "example.org"),
        ("http://example.org:8080?x", "http://example.org:8080/?x", "example.org:8080"),
        ("https://example.org:80/", "https://example.org:80/", "example.org:80"),
        ("http://a_b.example.org/", "http://a_b.example.org/", "a_b.example.org"),
        ("http://93.184.216.34/x", "http://93.184.216.34/x", "93.184.216.34"),
        ("http://[2606:4700:0:0::1111]:81/", "http://[2606:4700::1111]:81/", "[2606:4700::1111]:81"),
        (
            "https://www.bücher.example/ü?q=ü",
            "https://www.xn--bcher-kva.example/%C3%BC?q=%C3%BC",
            "www.xn--bcher-kva.example (www.bücher.example)",
        ),
        (
            "http://xn--bcher-kva.example/",
            "http://xn--bcher-kva.example/",
            "xn--bcher-kva.example (bücher.example)",
        ),
        ("http://example.org/\u202egpj.exe", "http://example.org/%E2%80%AEgpj.exe", "example.org"),
        # The dots of other scripts make an address of four numbers, which is what is checked.
        ("http://127。0。0。1/", "http://127.0.0.1/", "127.0.0.1"),
        ("http://[::1]80/", "http://[::1]/", "[::1]"),
        ("http://1e100.net/", "http://1e100.net/", "1e100.net"),
        ("http://0xabc.example/", "http://0xabc.example/", "0xabc.example"),
    ],
)
def test_the_one_form_of_a_url(typed: str, text: str, place: str) -> None:
    url = parse_url(typed)
    assert (url.text, url.place) == (text, place)
    assert parse_url(url.text) == url


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("ftp://example.org/", "http://"),
        ("file:///etc/passwd", "http://"),
        ("javascript:alert(1)", "http://"),
        ("//example.org/x", "http://"),
        ("example.org", "http://"),
        ("", "http://"),
        ("http:///etc/passwd", "names no host"),
        ("http:example.org", "names no host"),
        ("http://user@example.org/", "user name"),
        ("http://user:secret@example.org/", "user name"),
        ("http://example.org@127.0.0.1/", "user name"),
        ("http://example.org\\@127.0.0.1/", "backslashes"),
        ("http:\\\\example.org", "backslashes"),
        (" http://example.org/", "white space"),
        ("http://example.org/a b", "white space"),
        ("http://exa\tmple.org/", "white space"),
        ("http://example.org/\x00", "control"),
        ("http://example.org/\x85", "control"),
        ("http://example.org/\u3000", "white space"),
        ("http://2130706433/", "four decimal"),
        ("http://017700000001/", "four decimal"),
        ("http://0x7f000001/", "four decimal"),
        ("http://0x7f.1/", "four decimal"),
        ("http://127.1/", "four decimal"),
        ("http://127.0.0.1.1/", "four decimal"),
        ("http://127.0.0.0x1/", "four decimal"),
        ("http://example.0x/", "four decimal"),
        ("http://0177.0.0.1/", "no URL"),
        ("http://1.2.3.256/", "no URL"),
        ("http://127.0.0.1./", "four decimal"),
        ("http://%31%32%37.0.0.1/", "neither"),
        ("http://ex%61mple.org/", "neither"),
        ("http://example..org/", "neither"),
        ("http://example.org;x/", "neither"),
        ("http://" + "a" * 64 + ".org/", "neither"),
        ("http://[fe80::1%25eth0]/", "neither"),
        ("http://[fe80::1%eth0]/", "neither"),
        ("http://[::1/", "no URL"),
        ("http://\uff11\uff12\uff17.0.0.1/", "no URL"),
        ("http://exa\u200bmple.org/", "no URL"),
        ("http://\u202eevil.org/", "no URL"),
        ("http://example.org/\ud800", "no URL"),
        ("http://example.org:http/", "no URL"),
        ("http://example.org:0/", "no port"),
        ("http://example.org:-1/", "no port"),
        ("http://example.org:65536/", "no port"),
        ("http://example.org/" + "a" * MAX_URL_CHARS, "2,000 characters"),
        ("http://example.org/" + "ü" * 400, "2,000 characters"),
    ],
)
def test_what_is_refused(typed: str, why: str) -> None:
    with pytest.raises(UrlRefused) as refused:
        parse_url(typed)
    assert why in refused.value.reason
    assert refused.value.reason.isprintable()


@pytest.mark.parametrize(
    ("location", "leads"),
    [
        ("/b?c#d", "http://example.org/b?c"),
        ("b", "http://example.org/dir/b"),
        ("?q", "http://example.org/dir/page?q"),
        ("//other.example/", "http://other.example/"),
        ("https://example.org/", "https://example.org/"),
        ("http:/x", "http://example.org/x"),
    ],
)
def test_where_a_redirect_leads(location: str, leads: str) -> None:
    assert parse_url("http://example.org/dir/page?a").join(location).text == leads


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "http://u:p@example.org/", "/\\x", "http://[", "/a b"]
)
def test_a_redirect_to_what_cannot_be_fetched(location: str) -> None:
    with pytest.raises(UrlRefused):
        parse_url("http://example.org/").join(location)


@pytest.mark.parametrize(
    ("here", "there", "same"),
    [
        ("http://example.org/a", "http://example.org/b", True),
        ("http://example.org/", "https://example.org/", True),
        ("http://example.org:8080/", "http://example.org:8080/x", True),
        ("http://EXAMPLE.org/", "http://example.org./", True),
        ("https://example.org/", "http://example.org/", False),
        ("http://example.org:8080/", "https://example.org/", False),
        ("http://example.org/", "https://example.org:8443/", False),
        ("http://example.org/", "http://example.org:8080/", False),
        ("http://example.org/", "http://www.example.org/", False),
        ("http://www.example.org/", "http://example.org/", False),
        ("http://example.org/", "http://example.org.evil.example/", False),
    ],
)
def test_what_a_redirect_may_lead_to_unasked(here: str, there: str, same: bool) -> None:
    assert parse_url(here).leads_to(parse_url(there)) is same
