"""The steps that every Python client performs: it prints the names of the tools, and calls `echo` for each line of stdin."""

import asyncio
import json
import sys

COMMAND, ARGUMENTS = sys.argv[1], sys.argv[2:]
MESSAGE = {"message": "there?"}


def show(**line):
    print(json.dumps(line), flush=True)


async def perform(tools, call):
    """Performs the steps with the names of the tools and a function that calls `echo` and returns the text."""
    show(tools=sorted(tools))
    while await asyncio.to_thread(sys.stdin.readline):
        try:
            show(answer=await call())
        except Exception as error:
            show(failed=f"{type(error).__name__}: {error}")


def text_of(content):
    """Returns the text of the content of a result."""
    return "".join(item["text"] if isinstance(item, dict) else item.text for item in content)
