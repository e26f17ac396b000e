"""The table of tools, in the order in which a model is told of them."""

from collections.abc import Mapping
from types import MappingProxyType

from term2_acp.tools.apply_patch import ApplyPatch
from term2_acp.tools.arguments import decode, schema_of
from term2_acp.tools.base import Tool
from term2_acp.tools.create_file import CreateFile
from term2_acp.tools.glob import Glob
from term2_acp.tools.grep import Grep
from term2_acp.tools.read_file import ReadFile
from term2_acp.tools.run_code import RunCode
from term2_acp.tools.search_replace import SearchReplace
from term2_acp.tools.shell import Shell
from term2_acp.tools.update_plan import UpdatePlan
from term2_acp.tools.web_fetch import WebFetch

__all__ = ["TOOLS", "decode", "schema_of"]

_CALLABLE: tuple[Tool, ...] = (
    ReadFile(),
    Glob(),
    Grep(),
    CreateFile(),
    SearchReplace(),
    ApplyPatch(),
    Shell(),
    WebFetch(),
    UpdatePlan(),
)
_ALL: tuple[Tool, ...] = (*_CALLABLE, RunCode(_CALLABLE))

TOOLS: Mapping[str, Tool] = MappingProxyType({tool.name: tool for tool in _ALL})
"""Every tool by its name. Tools hold no state: a session's is in the context that they are given."""
