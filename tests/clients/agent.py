"""Another agent, made of the official Python client of the Model Context Protocol.

`agent.py MODE TRANSPORT TARGET...` connects, lists the tools, calls each of them, runs one with its progress, cancels one
and asks for a commit, and prints what it got as JSON. MODE is `legacy` or `auto`; TRANSPORT is `stdio` with the command as
TARGET, or `http` with the URL.
"""

import asyncio
import json
import os
import sys
import time

import anyio
import mcp_types as types
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

ARGUMENTS = {
    "read_file": {"path": "app.py"},
    "search_code": {"pattern": "def "},
    "find_references": {"symbol": "f"},
    "explain_function": {"name": "f"},
    "write_file": {"path": "new.py", "content": "y = 2\n"},
    "git_commit": {"message": "Say y"},
    "install_package": {"names": ["left-pad"]},
    "read_logs": {},
}


def transport(kind, target):
    if kind == "http":
        return streamable_http_client(target[0])
    parameters = StdioServerParameters(command=target[0], args=target[1:], env=dict(os.environ))
    return stdio_client(parameters)


async def main():
    mode, kind, *target = sys.argv[1:]
    asked, lines = [], []

    async def answer(_context, params):
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"approve": True})

    async def told(progress, _total, message):
        lines.append([progress, message])

    async with Client(transport(kind, target), mode=mode, elicitation_callback=answer) as client:
        said = {"protocol": client.protocol_version}
        tools = (await client.list_tools()).tools
        said["tools"] = {tool.name: tool.annotations.read_only_hint for tool in tools}
        said["calls"] = {}
        for tool in tools:
            if tool.name in ("run_tests", "git_commit"):
                continue
            result = await client.call_tool(tool.name, ARGUMENTS.get(tool.name, {}))
            said["calls"][tool.name] = result.structured_content.get("code", "ok")
        result = await client.call_tool("run_tests", {}, progress_callback=told)
        said["tests"] = result.content[0].text.splitlines()[0]
        said["progress"] = len(lines)
        said["rises"] = all(a[0] < b[0] for a, b in zip(lines, lines[1:]))
        result = await client.call_tool("git_commit", ARGUMENTS["git_commit"])
        said["commit"] = result.content[0].text.splitlines()[0]
        said["asked"] = asked
        begun = time.monotonic()
        with anyio.move_on_after(1.0):
            await client.call_tool("run_tests", {"paths": ["slow"]})
            said["cancelled"] = False
        said.setdefault("cancelled", True)
        await client.call_tool("read_file", ARGUMENTS["read_file"])
        said["after_ms"] = round((time.monotonic() - begun - 1.0) * 1000)
    print(json.dumps(said))


asyncio.run(main())
