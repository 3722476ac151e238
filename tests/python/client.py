"""The official Python client, controlled by a script, for `mcp` 1.27 and 2.3.

    client.py SCRIPT (legacy|modern|probing) (COMMAND [ARGS…] | URL)

It starts the command or dials the URL (over the 2024-11-05 transport if its path ends in `/sse`), performs the operations
of the script in order and prints one JSON object: the result of each operation, and the requests and notifications of the
server. Ids, times and other nondeterministic values are left out, so that two runs can be compared as text. In the eras
`modern` and `probing` the second major probes for the modern era first; a script for `probing` expects the legacy era.

The two majors differ in how a conversation is opened and in the names of their attributes. The first is kept in `transport`
and the two `open_*` functions; the second disappears because results are dumped in the protocol's own spelling.
"""

import json
import os
import sys
import warnings
from contextlib import asynccontextmanager

import anyio
from mcp import types
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

try:
    from mcp import Client, MCPError

    MAJOR = 2
except ImportError:
    from mcp import ClientSession
    from mcp import McpError as MCPError

    MAJOR = 1

warnings.simplefilter("ignore")

# Longer than any script takes on a busy machine. Reaching it is an error, not a hang.
PATIENCE_SECONDS = 90
ERA = sys.argv[2]


def plain(value):
    """Returns a result with the member names of the protocol."""
    return value.model_dump(by_alias=True, mode="json", exclude_none=True)


def briefly(result):
    """A result too long to print: its size and its ends. The transcripts hold every byte."""
    said = result["content"][0]["text"]
    return {"length": len(said), "head": said[:24], "tail": said[-24:]}


class Listener:
    """The notifications and requests of the server, and the answers to the requests."""

    def __init__(self):
        self.received = {}
        self.changed = anyio.Event()

    def note(self, method, params):
        self.received.setdefault(method, []).append(params)
        self.changed.set()
        self.changed = anyio.Event()

    async def wait(self, method, count):
        while len(self.received.get(method, [])) < count:
            await self.changed.wait()

    async def on_message(self, message):
        notification = getattr(message, "root", message)
        if isinstance(notification, Exception) or not hasattr(notification, "method"):
            return
        if notification.method.startswith("notifications/") and notification.method != "notifications/progress":
            self.note(notification.method, plain(notification).get("params"))

    async def on_sampling(self, context, params):
        self.note("sampling/createMessage", {**plain(params), "_meta": None})
        meta = context.meta if isinstance(context.meta, dict) else plain(context.meta) if context.meta else {}
        token = meta.get("progress_token", meta.get("progressToken"))
        if token is not None:
            await context.session.send_progress_notification(token, 1, 2)
        words = {"role": "assistant", "content": {"type": "text", "text": "four"}, "model": "arithmetic", "stopReason": "endTurn"}
        return types.CreateMessageResult.model_validate(words)

    async def on_elicitation(self, context, params):
        self.note("elicitation/create", {**plain(params), "_meta": None})
        if params.message == "Never mind.":
            # The server waits for this notification before it cancels its request.
            await context.session.send_roots_list_changed()
            await anyio.sleep_forever()
        return types.ElicitResult(action="accept", content={"colour": "blue", "name": "Ada", "check": True})

    async def on_roots(self, _context):
        self.note("roots/list", None)
        return types.ListRootsResult.model_validate({"roots": [{"uri": "file:///srv/data", "name": "data"}]})


def transport(server, args):
    """The transport to a command or a URL."""
    if not server.startswith("http"):
        return stdio_client(StdioServerParameters(command=server, args=args))
    if server.endswith("/sse"):
        return sse_client(server)
    # The second major limits an event to less than the script needs.
    return streamable_http_client(server, **({} if MAJOR == 1 else {"max_sse_event_size": None}))


@asynccontextmanager
async def open_first(server, listener):
    async with server as (read, write, *_):
        async with ClientSession(
            read,
            write,
            sampling_callback=listener.on_sampling,
            elicitation_callback=listener.on_elicitation,
            list_roots_callback=listener.on_roots,
            message_handler=listener.on_message,
        ) as session:
            yield session, session, plain(await session.initialize())


@asynccontextmanager
async def open_second(server, listener):
    client = Client(
        server,
        sampling_callback=listener.on_sampling,
        elicitation_callback=listener.on_elicitation,
        list_roots_callback=listener.on_roots,
        message_handler=listener.on_message,
        log_level="warning",
        mode="legacy" if ERA == "legacy" else "auto",
    )
    async with client:
        handshake = client.session.discover_result or client.session.initialize_result
        yield client, client.session, plain(handshake)


class Script:
    """One method for each kind of operation."""

    def __init__(self, client, session, listener, modern):
        self.client, self.session, self.listener, self.modern = client, session, listener, modern

    async def ping(self, _step):
        return plain(await self.client.send_ping())

    async def list(self, step):
        verb, key = {
            "tools": (self.client.list_tools, "tools"),
            "resources": (self.client.list_resources, "resources"),
            "templates": (self.client.list_resource_templates, "resourceTemplates"),
            "prompts": (self.client.list_prompts, "prompts"),
        }[step["what"]]
        pages, cursor = [], None
        while True:
            page = plain(await (verb() if cursor is None else verb(cursor=cursor)))
            pages.append(page[key])
            cursor = page.get("nextCursor")
            if cursor is None:
                return pages

    async def call(self, step):
        seen, arguments, options = [], dict(step["arguments"]), {}
        if "fill" in step:
            arguments[step["fill"]["argument"]] *= step["fill"]["bytes"]
        if step.get("progress"):

            async def on_progress(progress, total, message):
                seen.append([progress, total, message])

            options["progress_callback"] = on_progress
        result = plain(await self.client.call_tool(step["tool"], arguments, **options))
        return [briefly(result) if step.get("brief") else result, seen]

    async def together(self, step):
        results = [None] * len(step["calls"])

        async def one(place, call):
            results[place] = await self.call(call)

        async with anyio.create_task_group() as tasks:
            for place, call in enumerate(step["calls"]):
                tasks.start_soon(one, place, call)
        return results

    async def cancel(self, step):
        """Cancels a running call: after its first progress, or after another call that was sent later."""
        call, started = step["call"], anyio.Event()
        outcome = []

        async def on_progress(*_):
            started.set()

        async def run():
            options = {"progress_callback": on_progress} if step["after"] == "progress" else {}
            await self.client.call_tool(call["tool"], call["arguments"], **options)
            outcome.append("answered")

        async with anyio.create_task_group() as tasks:
            scope = anyio.CancelScope()

            async def scoped():
                with scope:
                    await run()

            tasks.start_soon(scoped)
            await anyio.lowlevel.checkpoint()
            if step["after"] == "progress":
                await started.wait()
            else:
                await self.call(step["after"])
            if MAJOR == 1:
                # The first major leaves the notification to its user; the call is the newest or the one before the fence.
                request = self.session._request_id - (1 if step["after"] == "progress" else 2)
                given_up = types.CancelledNotificationParams(requestId=request, reason="given up")
                await self.session.send_notification(
                    types.ClientNotification(types.CancelledNotification(params=given_up))
                )
            scope.cancel()
        return outcome or ["given up"]

    async def read(self, step):
        return plain(await self.client.read_resource(step["uri"]))

    async def watch(self, step):
        """Subscribes to a resource, has it changed, waits for the notification, and unsubscribes."""
        method, uri = "notifications/resources/updated", step["uri"]
        if self.modern:
            async with self.client.listen(resource_subscriptions=[uri]) as subscription:
                touched = await self.call(step["touch"])
                async for event in subscription:
                    return [touched, str(event)]
        before = len(self.listener.received.get(method, []))
        await self.client.subscribe_resource(uri)
        touched = await self.call(step["touch"])
        await self.listener.wait(method, before + 1)
        await self.client.unsubscribe_resource(uri)
        return [touched, self.listener.received[method][before:]]

    async def hang_up(self, step):
        """Subscribes and lets the server end the subscription."""
        async with self.client.listen(resource_subscriptions=[step["uri"]]) as subscription:
            called = await self.call(step["call"])
            return [called, [str(event) async for event in subscription]]

    async def subscribe(self, step):
        return await self.client.subscribe_resource(step["uri"]) and None

    async def pause(self, step):
        """Creates a file at a pause, and continues when the test has created another."""
        open(step["file"] + ".here", "w", encoding="utf-8").close()
        while not os.path.exists(step["file"] + ".on"):
            await anyio.sleep(0.01)

    async def hold(self, step):
        """Subscribes in the modern era, pauses, and waits for the next notification."""
        async with self.client.listen(resource_subscriptions=[step["uri"]]) as subscription:
            await self.pause(step)
            async for event in subscription:
                return str(event)

    async def level(self, step):
        return plain(await self.client.set_logging_level(step["level"]))

    async def prompt(self, step):
        return plain(await self.client.get_prompt(step["name"], step["arguments"]))

    async def complete(self, step):
        ref = types.PromptReference(type="ref/prompt", name=step["prompt"])
        return plain(await self.client.complete(ref, step["argument"]))

    async def raw(self, step):
        if MAJOR == 1:
            # Its requests are a closed union, so one of them is renamed.
            request = types.ClientRequest(types.PingRequest.model_construct(method=step["method"], params=None))
        else:
            request = types.Request(method=step["method"], params=None)
        return plain(await self.session.send_request(request, types.EmptyResult))

    async def roots_changed(self, _step):
        return await self.client.send_roots_list_changed()

    async def perform(self, step):
        if step["do"] == "await":
            return await self.listener.wait(step["method"], step["count"])
        return await getattr(self, step["do"])(step)


async def main(script, server, args):
    listener, steps, modern = Listener(), [], ERA == "modern"
    opening = open_first if MAJOR == 1 else open_second
    with anyio.fail_after(PATIENCE_SECONDS):
        async with opening(transport(server, args), listener) as (client, session, handshake):
            performer = Script(client, session, listener, modern)
            for step in script:
                if step.get("era", ERA) not in ((ERA,) if modern else ("legacy", "probing")):
                    continue
                if MAJOR == 1 and step.get("tool") == "withdraw":
                    # It reads nothing while it answers, so a request to it cannot be cancelled.
                    continue
                failed = False
                try:
                    gave = await performer.perform(step)
                except MCPError as error:
                    failed, gave = True, {"error": plain(error.error)}
                # A step that fails in both runs would compare equal and prove nothing.
                if failed != step.get("fails", False):
                    raise SystemExit(f"{step} gave {gave}")
                steps.append([step["do"], step.get("tool"), gave])
    print(json.dumps({"handshake": handshake, "steps": steps, "received": listener.received}, sort_keys=True))


with open(sys.argv[1], encoding="utf-8") as file:
    anyio.run(main, json.load(file), sys.argv[3], sys.argv[4:])
