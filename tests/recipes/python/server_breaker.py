import sys

import httpx
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from purgatory import AsyncCircuitBreakerFactory
from purgatory.domain.model import OpenedState
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

API, RESET = sys.argv[1], float(sys.argv[2])

server = FastMCP("project")
client = httpx.AsyncClient(base_url=API, timeout=5)


class Unavailable(Exception):
    """The dependency failed in a way that may pass: no connection, a timeout, 429, 5xx."""


class Refused(Exception):
    """The dependency refused the request. It works, and asking again does not help."""


breakers = AsyncCircuitBreakerFactory(default_threshold=3, default_ttl=RESET, exclude=[Refused])


@retry(
    retry=retry_if_exception_type(Unavailable),
    stop=stop_after_attempt(2),
    wait=wait_random_exponential(multiplier=0.1, max=2),
    reraise=True,
)
async def fetch(path: str) -> str:
    try:
        response = await client.get(path)
    except httpx.TransportError as error:
        raise Unavailable(f"no answer ({type(error).__name__})") from error
    if response.status_code == 429 or response.status_code >= 500:
        raise Unavailable(f"HTTP {response.status_code}")
    if response.status_code >= 400:
        raise Refused(f"HTTP {response.status_code}")
    return response.text


async def part(name: str) -> tuple[str | None, str | None]:
    """Returns one part of the summary, or the reason why it is missing. Each dependency has its own breaker."""
    try:
        async with await breakers.get_breaker(name):
            return f"{name}: {await fetch(name)}", None
    except OpenedState:
        return None, f"{name}: not asked, because it failed repeatedly; asked again within {RESET:g} s"
    except (Unavailable, Refused) as error:
        return None, f"{name}: {error}"


@server.tool(annotations={"readOnlyHint": True})
async def project_summary() -> str:
    """Returns the latest commits and the open issues."""
    parts = [await part("commits"), await part("issues")]
    found = [text for text, _ in parts if text]
    missing = [reason for _, reason in parts if reason]
    if not found:
        raise ToolError(f"No source answered: {'; '.join(missing)}. Try again in {RESET:g} s.")
    if missing:
        found.append(f"Incomplete. Missing: {'; '.join(missing)}.")
    return "\n".join(found)


server.run(show_banner=False)
