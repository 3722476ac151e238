"""A server on the official `mcp` package with which a test can provoke every kind of message.

It is built on the low-level server because the high-level one hides pages, progress, requests to the client, log levels,
subscriptions and cancellation. Every answer is a function of the requests, without time or randomness, so that two
conversations with the same script have the same transcript.

The package serves both eras on one pipe, and the first request decides. `ask` and `touch` contain the differences: in the
legacy era the server sends a request to the client, in the modern era it answers "input required" and is called again with
the answer.

    server.py [stdio|http|stateless|sse]

Over HTTP it listens on a free port and prints `listening on PORT`. `http` and `stateless` serve Streamable HTTP of both
eras at `/mcp`, the legacy one with and without a session; `sse` is the 2024-11-05 transport, at `/sse`. One process serves
one conversation, because its state is shared.
"""

import socket
import sys
import warnings

import anyio
import mcp_types as types
import uvicorn
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount, Route

# The package deprecates features of the legacy era, which this server needs.
warnings.simplefilter("ignore")

LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
FORM = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}


def tool(name, description, required=(), **properties):
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return types.Tool(name=name, description=description, input_schema=schema)


TEXT, WHOLE = {"type": "string"}, {"type": "integer", "minimum": 0}
TOOLS = [
    tool("echo", "Says what it was told.", ["text"], text=TEXT),
    tool("count", "Counts, with one progress notification for each step.", ["steps"], steps=WHOLE),
    tool("big", "Answers with so many bytes of text.", ["bytes"], bytes=WHOLE),
    tool("meet", "Waits until all of its company have come, then answers the last one first.", ["place", "of"], place=WHOLE, of=WHOLE),
    tool("slow", "Reports progress once and then waits for ever.", []),
    tool("ask_model", "Asks the client's model.", []),
    tool("ask_user", "Asks the client's user.", []),
    tool("ask_roots", "Asks for the client's roots.", []),
    tool("ask_ping", "Asks the client whether it is there.", []),
    tool("withdraw", "Asks the client's user and takes the question back as soon as the client has it.", []),
    tool("touch", "Tells subscribers that a resource has changed.", ["uri"], uri=TEXT),
    tool("hang_up", "Ends all subscriptions in good order.", []),
    tool("speak", "Logs one message at each level.", []),
    tool("fail", "Fails, as a tool does: in its result.", []),
]
RESOURCES = [
    types.Resource(uri=f"note://{n}", name=f"note {n}", mime_type="text/plain") for n in ("one", "zwei", "три", "四", "five")
]
TEMPLATES = [
    types.ResourceTemplate(uri_template="note://{name}", name="any note"),
    types.ResourceTemplate(uri_template="shelf://{shelf}/{name}", name="a note on a shelf"),
]
PROMPTS = [
    types.Prompt(name="welcome", description="A welcome message.", arguments=[types.PromptArgument(name="whom", required=True)]),
    types.Prompt(name="plain", description="No arguments."),
    types.Prompt(name="last", description="On the second page."),
]


def page(items, size, params):
    """Returns one page and the cursor of the next, which needs escapes in a JSON string."""
    cursor = params.cursor if params is not None else None
    try:
        start = 0 if cursor is None else int(cursor.removeprefix('from "\\'))
    except ValueError:
        raise MCPError(types.INVALID_PARAMS, f"no such cursor: {cursor}") from None
    end = start + size
    return items[start:end], f'from "\\{end}' if end < len(items) else None


def text(said, **more):
    return types.CallToolResult(content=[types.TextContent(type="text", text=said)], **more)


class Fixture:
    """The tools and their state."""

    def __init__(self):
        self.level = "debug"
        self.subscribed = set()
        self.bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self.bus)
        self.gone = {}
        self.nodded = anyio.Event()

    async def list_tools(self, _ctx, params):
        tools, cursor = page(TOOLS, 4, params)
        return types.ListToolsResult(tools=tools, next_cursor=cursor)

    async def list_resources(self, _ctx, params):
        resources, cursor = page(RESOURCES, 2, params)
        return types.ListResourcesResult(resources=resources, next_cursor=cursor)

    async def list_templates(self, _ctx, params):
        templates, cursor = page(TEMPLATES, 1, params)
        return types.ListResourceTemplatesResult(resource_templates=templates, next_cursor=cursor)

    async def list_prompts(self, _ctx, params):
        prompts, cursor = page(PROMPTS, 2, params)
        return types.ListPromptsResult(prompts=prompts, next_cursor=cursor)

    async def read(self, _ctx, params):
        if not any(resource.uri == params.uri for resource in RESOURCES):
            raise MCPError(types.INVALID_PARAMS, "no such note", {"uri": params.uri})
        note = types.TextResourceContents(uri=params.uri, mime_type="text/plain", text=f"The note at {params.uri}: ünïcödé \u2028 end")
        return types.ReadResourceResult(contents=[note])

    async def subscribe(self, _ctx, params):
        self.subscribed.add(params.uri)
        return types.EmptyResult()

    async def unsubscribe(self, _ctx, params):
        self.subscribed.discard(params.uri)
        return types.EmptyResult()

    async def prompt(self, _ctx, params):
        if params.name != "welcome":
            raise MCPError(types.INVALID_PARAMS, f"no such prompt: {params.name}")
        said = types.TextContent(type="text", text=f"Please welcome {(params.arguments or {}).get('whom')}.")
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=said)])

    async def complete(self, _ctx, params):
        known = [name for name in ("Ada", "Alan", "Barbara") if name.startswith(params.argument.value)]
        return types.CompleteResult(completion=types.Completion(values=known, total=len(known), has_more=False))

    async def set_level(self, _ctx, params):
        self.level = params.level
        return types.EmptyResult()

    async def call(self, ctx, params):
        handler = getattr(self, f"tool_{params.name}", None)
        if handler is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}", {"asked": params.name})
        return await handler(ctx, params, params.arguments or {})

    async def tool_echo(self, _ctx, _params, args):
        return text(args["text"])

    async def tool_count(self, ctx, _params, args):
        for step in range(1, args["steps"] + 1):
            await ctx.session.report_progress(step, args["steps"], f"step {step}")
        return text(f"counted to {args['steps']}")

    async def tool_big(self, _ctx, _params, args):
        pattern = "0123456789abcdef"
        return text((pattern * (args["bytes"] // len(pattern) + 1))[: args["bytes"]])

    async def tool_meet(self, _ctx, _params, args):
        place, of = args["place"], args["of"]
        self.gone.setdefault(place, anyio.Event())
        if place + 1 < of:
            await self.gone.setdefault(place + 1, anyio.Event()).wait()
        self.gone[place].set()
        return text(f"{place} of {of} leaves")

    async def tool_slow(self, ctx, _params, _args):
        await ctx.session.report_progress(1, None, "started")
        await anyio.sleep_forever()

    async def tool_speak(self, ctx, _params, _args):
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        for level in LEVELS:
            # The modern era decides by the request's own `_meta`, inside the package.
            if modern or LEVELS.index(level) >= LEVELS.index(self.level):
                await ctx.session.send_log_message(level, {"said": f"at {level}"}, "fixture", related_request_id=ctx.request_id)
        return text("spoken")

    async def tool_touch(self, ctx, _params, args):
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            await self.bus.publish(ResourceUpdated(uri=args["uri"]))
        elif args["uri"] in self.subscribed:
            await ctx.session.send_resource_updated(args["uri"])
        return text("touched")

    async def tool_hang_up(self, _ctx, _params, _args):
        self.listen.close()
        return text("hung up")

    async def tool_fail(self, _ctx, _params, _args):
        return text("it did not work", is_error=True)

    async def tool_ask_model(self, ctx, params, _args):
        said = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="What is \"two\" + two?"))
        ask = types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[said], max_tokens=20))
        return await self.ask(ctx, params, ask, types.CreateMessageResult)

    async def tool_ask_user(self, ctx, params, _args):
        form = types.ElicitRequestFormParams(message="Which colour?", requested_schema=FORM)
        return await self.ask(ctx, params, types.ElicitRequest(params=form), types.ElicitResult)

    async def tool_ask_roots(self, ctx, params, _args):
        return await self.ask(ctx, params, types.ListRootsRequest(), types.ListRootsResult)

    async def tool_ask_ping(self, ctx, _params, _args):
        await ctx.session.send_ping()
        return text("it is there")

    async def tool_withdraw(self, ctx, _params, _args):
        form = types.ElicitRequestFormParams(message="Never mind.", requested_schema=FORM)
        self.nodded = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ctx.session.send_request, types.ElicitRequest(params=form), types.ElicitResult)
            await self.nodded.wait()
            tasks.cancel_scope.cancel()
        return text("taken back")

    async def roots_changed(self, _ctx, _params):
        """Handles the notification by which a client confirms that it has received the request."""
        self.nodded.set()

    async def ask(self, ctx, params, request, answer_type):
        """Sends a request to the client as its era requires, and returns the answer."""
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:

            async def on_progress(*_):
                """A callback, with which the request has a progress token."""

            answer = await ctx.session.send_request(request, answer_type, progress_callback=on_progress)
        elif params.input_responses is None:
            return types.InputRequiredResult(input_requests={"question": request}, request_state="state of the question")
        else:
            answer = params.input_responses["question"]
        return text(answer.model_dump_json(by_alias=True, exclude_none=True) + f" after {params.request_state}")


class FixtureServer(Server):
    """The server. The HTTP transports of the package ask it for its handshake without options, so it stores them."""

    def create_initialization_options(self, notification_options=None, *more, **options):
        announced = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(announced, *more, **options)


def sse_app(server):
    transport = SseServerTransport("/messages/")

    async def stream(request):
        async with transport.connect_sse(request.scope, request.receive, request._send) as (read, write):
            await server.run(read, write, server.create_initialization_options())
        return Response()

    return Starlette(routes=[Route("/sse", stream, methods=["GET"]), Mount("/messages/", transport.handle_post_message)])


async def listen(app):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # The kernel accepts connections from here on, before the event loop runs.
        print("listening on", listener.getsockname()[1], flush=True)
        await uvicorn.Server(uvicorn.Config(app, log_level="info")).serve([listener])


async def main(over):
    fixture = Fixture()
    server = FixtureServer(
        "mendline-fixture",
        version="1.0.0",
        instructions="Provoke me.",
        on_list_tools=fixture.list_tools,
        on_call_tool=fixture.call,
        on_list_resources=fixture.list_resources,
        on_list_resource_templates=fixture.list_templates,
        on_read_resource=fixture.read,
        on_subscribe_resource=fixture.subscribe,
        on_unsubscribe_resource=fixture.unsubscribe,
        on_subscriptions_listen=fixture.listen,
        on_list_prompts=fixture.list_prompts,
        on_get_prompt=fixture.prompt,
        on_completion=fixture.complete,
        on_set_logging_level=fixture.set_level,
        on_roots_list_changed=fixture.roots_changed,
    )
    print("the fixture serves", file=sys.stderr)
    if over == "sse":
        return await listen(sse_app(server))
    if over in ("http", "stateless"):
        return await listen(server.streamable_http_app(stateless_http=over == "stateless"))
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else "stdio")
