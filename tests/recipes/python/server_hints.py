import json
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

NOTES = Path(sys.argv[1])
server = MCPServer("notes")


def load() -> dict[str, str]:
    return json.loads(NOTES.read_text()) if NOTES.exists() else {}


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def find_note(name: str) -> str:
    """Returns a note. Changes nothing: Mendline sends this call again after a crash."""
    notes = load()
    return notes.get(name, f"There is no note {name}. The names are: {', '.join(notes)}.")


@server.tool(annotations=ToolAnnotations(read_only_hint=False, idempotent_hint=True))
def set_note(name: str, text: str) -> str:
    """Writes a note. Twice is the same as once: Mendline sends this call again too."""
    NOTES.write_text(json.dumps(load() | {name: text}))
    return f"{name} is saved."


@server.tool(annotations=ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False))
def append_to_note(name: str, text: str) -> str:
    """Adds to a note. Twice is not once: after a crash the model reads that the outcome is unknown."""
    notes = load()
    NOTES.write_text(json.dumps(notes | {name: notes.get(name, "") + text}))
    return f"{name} is longer now."


server.run()
