"""What is known of the built-in scripts before any of them is imported."""

from collections.abc import Mapping

BENCH = "bench"

MERGES_TEXT: Mapping[str, bool] = {BENCH: False}
"""The built-in scripts by name, and whether their text may be merged (``Provider.merge_text``).

What a benchmark asks for is not: every delta is to be paid for.
"""
