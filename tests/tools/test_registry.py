"""The table of tools: names, kinds and what may run side by side, as the contract has them."""

from term2_acp.domain.toolcall import ToolKind
from term2_acp.tools.registry import TOOLS


def test_the_table():
    assert {name: (tool.kind, tool.reads_only) for name, tool in TOOLS.items()} == {
        "read_file": (ToolKind.READ, True),
        "glob": (ToolKind.SEARCH, True),
        "grep": (ToolKind.SEARCH, True),
        "create_file": (ToolKind.EDIT, False),
        "search_replace": (ToolKind.EDIT, False),
        "apply_patch": (ToolKind.EDIT, False),
        "shell": (ToolKind.EXECUTE, False),
        "web_fetch": (ToolKind.FETCH, False),
        "update_plan": (ToolKind.THINK, False),
        "run_code": (ToolKind.EXECUTE, False),
    }


def test_every_tool_is_called_what_it_is_filed_under_and_has_a_manual_page():
    for name, tool in TOOLS.items():
        assert tool.name == name
        assert len(tool.description) > 50
