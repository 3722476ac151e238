"""PyPI `oidc-provider-mock` as the authorization server of a small MCP server.

The provider has only OpenID metadata, no list of PKCE methods, no `resource` and no `iss`. The program prints one JSON
object, the URL of the MCP server, the issuer and the URL of the counts, and ends with its stdin.
"""

import json
import sys
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import oidc_provider_mock

METADATA = "/.well-known/oauth-protected-resource"
TOOL = {"name": "lookup", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
counts = {"accepted": 0, "refused": 0, "executions": 0}


def is_valid(issuer: str, header: str) -> bool:
    """Returns whether the provider accepts a token."""
    request = urllib.request.Request(f"{issuer}/userinfo", headers={"Authorization": header})
    try:
        with urllib.request.urlopen(request) as response:
            return response.status == 200
    except urllib.error.HTTPError:
        return False


def result_of(message: dict) -> dict:
    """Returns the result of a request."""
    match message["method"]:
        case "initialize":
            info = {"name": "protected", "version": "1"}
            revision = message["params"]["protocolVersion"]
            return {"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            counts["executions"] += 1
            return {"content": [{"type": "text", "text": "found"}]}
        case _:
            return {}


class Mcp(BaseHTTPRequestHandler):
    """The MCP server: Streamable HTTP without sessions."""

    protocol_version = "HTTP/1.1"
    issuer = ""

    def reply(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def do_GET(self) -> None:
        if self.path == METADATA:
            self.reply(200, {"resource": f"{self.origin}/mcp", "authorization_servers": [self.issuer], "scopes_supported": ["openid"]})
        elif self.path == "/counts":
            self.reply(200, counts)
        else:
            self.reply(405 if self.path == "/mcp" else 404, None)

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"null")
        header = self.headers.get("Authorization", "")
        if not header or not is_valid(self.issuer, header):
            counts["refused"] += 1
            self.reply(401, {}, {"WWW-Authenticate": "Bearer"})
            return
        counts["accepted"] += 1
        if "id" not in message:
            self.reply(202, None)
            return
        self.reply(200, {"jsonrpc": "2.0", "id": message["id"], "result": result_of(message)})

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


def main() -> None:
    with oidc_provider_mock.run_server_in_thread() as provider:
        Mcp.issuer = f"http://localhost:{provider.server_port}"
        server = ThreadingHTTPServer(("127.0.0.1", 0), Mcp)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        origin = f"http://127.0.0.1:{server.server_address[1]}"
        addresses = {"url": f"{origin}/mcp", "issuer": Mcp.issuer, "counts": f"{origin}/counts"}
        print(json.dumps(addresses), flush=True)
        sys.stdin.read()


main()
