"""Talks to an MCP server with the official Python SDK and prints what it saw as JSON.

    client.py stdio COMMAND [ARGUMENT...]
    client.py http URL
"""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


@asynccontextmanager
async def connect(kind, *where):
    if kind == "stdio":
        params = StdioServerParameters(command=where[0], args=list(where[1:]), env=dict(os.environ))
        async with stdio_client(params) as streams:
            yield streams[0], streams[1]
        return
    try:
        from mcp.client.streamable_http import streamable_http_client as http_client
    except ImportError:  # older releases
        from mcp.client.streamable_http import streamablehttp_client as http_client
    async with http_client(where[0]) as streams:
        yield streams[0], streams[1]


def plain(result):
    return result.model_dump(by_alias=True, mode="json")


async def main():
    async with connect(*sys.argv[1:]) as (read, write), ClientSession(read, write) as session:
        server = plain(await session.initialize())
        seen = {
            "protocol": server["protocolVersion"],
            "tools": plain(await session.list_tools())["tools"],
            "difference": plain(await session.call_tool("difference", {"a": 5, "b": 3})),
            "bad": plain(await session.call_tool("difference", {"a": 5})),
            "panic": plain(await session.call_tool("panic", {})),
        }
        try:
            await session.call_tool("nothing", {})
            seen["unknown"] = "no error"
        except Exception as e:  # its class depends on the release
            seen["unknown"] = str(e)
        many = await asyncio.gather(*(session.call_tool("echo", {"text": str(i)}) for i in range(20)))
        seen["echoes"] = [plain(r)["content"][0]["text"] for r in many]
    print(json.dumps(seen))


asyncio.run(main())
