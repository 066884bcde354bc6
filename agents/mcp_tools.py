"""Tools of an MCP server for an agent; server output is treated as data: truncated, fenced, and
never run.

The server is a command that the user names. It does not get the keys in this process's environment.
"""

import json
import logging
import os
import re
import shlex
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool

from emend.agents import mcp_supervisor
from emend.agents.parsing.delimiters import strip_delimiters
from emend.memory.distribution import install_command
from emend.memory.errors import BadSettings, MissingExtra
from emend.memory.escape import one_line, visible_controls
from emend.memory.registry import trusted_names

KIND = "mcp:"
# Timeouts for the start of a server and for a tool call.
START_SECONDS = CALL_SECONDS = 30.0
RESULT_LIMIT = 8_000
DESCRIPTION_LIMIT = 1_000
SCHEMA_LIMIT = 20_000
TOOLS_LIMIT = 64
REASON_LIMIT = 500
_NAME = re.compile(r"[A-Za-z0-9_-]{1,50}")


def require_mcp() -> None:
    """Check that the MCP SDK is installed.

    Raises:
        MissingExtra: names the install line.
    """
    try:
        import mcp.server  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtra(f"MCP needs {error.name}: {install_command('mcp')}.") from error


def check_tools(name: str) -> None:
    """Check a setting that names further tools.

    Raises:
        BadSettings: it is not the command of an MCP server, or only a file and not the user names
            it.
        MissingExtra: the SDK is not installed.
    """
    if not name.startswith(KIND) or not _words(name):
        raise BadSettings(
            f"tools '{name}' are unknown: name the command of an MCP server, such as mcp:my-server "
            "--flag."
        )
    if name not in trusted_names():
        raise BadSettings(
            f"tools '{name}' are a command from a file that you did not name yourself: check it, "
            f"then allow it with --set agent.tools='{name}' or --trust '{name}'."
        )
    require_mcp()


@contextmanager
def open_tools(name: str) -> Iterator[tuple[BaseTool, ...]]:
    """Start a server and yield its tools, with the prefix `mcp_`; the server ends with the context.

    Raises:
        BadSettings: the command cannot be started, or does not speak MCP.
    """
    from anyio.from_thread import start_blocking_portal

    with start_blocking_portal() as portal:
        try:
            opening = portal.wrap_async_context_manager(_session(_words(name)))
            session = opening.__enter__()
            try:
                specifications = portal.call(session.list_tools).tools[:TOOLS_LIMIT]
            except BaseException:
                opening.__exit__(None, None, None)
                raise
        except Exception as error:
            raise BadSettings(
                f"tools '{name}' cannot be started within {START_SECONDS:.0f} s "
                f"({_reason(error)}): run the command in a terminal, and correct it."
            ) from error
        try:
            yield tuple(
                _as_tool(portal, session, each) for each in specifications if _is_usable(each)
            )
        finally:
            opening.__exit__(None, None, None)


@asynccontextmanager
async def _session(words: list[str]) -> AsyncIterator[Any]:
    import anyio
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    # it logs a traceback for each line that is not a message
    logging.getLogger("mcp.client.stdio").setLevel(logging.CRITICAL)
    program, *arguments = _supervised(words)
    parameters = StdioServerParameters(command=program, args=arguments)
    # A server's standard error could contain terminal control sequences.
    with open(os.devnull, "w", encoding="utf-8") as silence:
        async with (
            stdio_client(parameters, errlog=silence) as (read, write),
            ClientSession(read, write, timedelta(seconds=START_SECONDS)) as session,
        ):
            with anyio.fail_after(START_SECONDS):
                await session.initialize()
            yield session


def _supervised(words: list[str]) -> list[str]:
    """Return a command that runs the words and ends what they leave; the SDK does so on Windows.

    Raises:
        FileNotFoundError: there is no such program.
    """
    if shutil.which(words[0]) is None:
        raise FileNotFoundError(f"there is no program '{words[0]}'")
    if sys.platform == "win32":
        return words
    return [sys.executable, "-I", "-S", mcp_supervisor.__file__, *words]


def _words(name: str) -> list[str]:
    try:
        return shlex.split(name.removeprefix(KIND))
    except ValueError:
        return []


def _is_usable(specification: Any) -> bool:
    """Return whether a tool has a plain name and an argument schema short enough for a prompt."""
    schema = specification.inputSchema
    plain = bool(_NAME.fullmatch(specification.name)) and schema.get("type") == "object"
    return plain and len(json.dumps(schema)) <= SCHEMA_LIMIT


def _as_tool(portal: Any, session: Any, specification: Any) -> BaseTool:
    def run(**arguments: Any) -> str:
        try:
            result = portal.call(
                session.call_tool, specification.name, arguments, timedelta(seconds=CALL_SECONDS)
            )
        except Exception as error:  # the server timed out, ended, or sent an invalid response
            return _fenced(_reason(error), "error")
        parts = (each.text if each.type == "text" else f"({each.type})" for each in result.content)
        return _fenced("\n".join(parts), "error" if result.isError else "result")

    return StructuredTool(
        name=f"mcp_{specification.name}",
        description=_cut(specification.description or specification.name, DESCRIPTION_LIMIT),
        args_schema=specification.inputSchema,
        func=run,
    )


def _fenced(text: str, name: str) -> str:
    return f"<{name}>{strip_delimiters(_cut(text, RESULT_LIMIT), 'result', 'error')}</{name}>"


def _cut(text: str, limit: int) -> str:
    """Return the text with visible control characters, truncated to the limit."""
    visible = visible_controls(text[: 2 * limit])
    return visible if len(text) <= limit and len(visible) <= limit else visible[: limit - 1] + "…"


def _reason(error: BaseException) -> str:
    """Return the innermost reason of an error in one line; the SDK raises exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    reason = one_line(str(error), REASON_LIMIT)
    return f"{type(error).__name__}: {reason}" if reason else type(error).__name__
