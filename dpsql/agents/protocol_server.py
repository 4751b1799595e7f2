"""The server of the Model Context Protocol: the tools of a desk, guides as resources, and the prompt.

Each tool does its work on the seat that belongs to its call. Annotations are evaluated here (no future import), as the SDK reads
schemas from them, and the question to a person is a function made for one server.
"""

import functools
import json
from collections.abc import Callable
from typing import Annotated, Any

from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp.server.mcpserver.resources import FunctionResource
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field

from dpsql import __version__, guides
from dpsql.agents.agent_desk import AgentDesk, validate_statement
from dpsql.agents.agent_prompts import INSTRUCTIONS, analyse
from dpsql.agents.agent_seats import AgentSeat, LocalSeat
from dpsql.agents.result_forms import (
    Agreement,
    AnsweredForm,
    CatalogueForm,
    ClaimsForm,
    PlanForm,
    PriceForm,
    ReleasedForm,
)
from dpsql.agents.tool_results import ToolResult
from dpsql.errors import Error, InternalError

Sql = Annotated[str, Field(description="One statement of SQL, such as SELECT health, COUNT(*) AS n FROM people GROUP BY health")]
Purpose = Annotated[str, Field(description="Why this is asked, in a sentence for the owner of the data, who reads it in the log")]
Most = Annotated[float | None, Field(description="The most it may cost, in the unit of the budget; above it, nothing is charged")]
FREE = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
CHARGED = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
SeatOf = Callable[[Any], AgentSeat]
"""The seat of a call, by its context."""
OVER = ("user", "closed")  # codes of errors that end a session


def local_server(desk: AgentDesk) -> MCPServer:
    """The server of a process that serves one agent. The catalogue is a resource too."""
    seat = LocalSeat(desk)
    server = protocol_server(lambda context: seat, desk.connection.session.catalog.entity.name)
    server.add_resource(FunctionResource(
        uri="dpsql://catalogue", name="catalogue", description="Tables, declared values, and the state of the budget",
        mime_type="application/json", fn=functools.partial(_catalogue_as_json, seat)))
    return server


async def _catalogue_as_json(seat: AgentSeat) -> str:
    return json.dumps((await seat.do(lambda desk: desk.catalogue())).data, ensure_ascii=False)


def protocol_server(seat_of: SeatOf, entity: str) -> MCPServer:
    """The server for all who have a seat; `entity` is what answers protect, in a word."""
    server = MCPServer("dpsql", title="dpsql", version=__version__, log_level="CRITICAL",
                       instructions=INSTRUCTIONS.format(entity=entity))
    for tool, annotations in ((_catalogue(seat_of), FREE), (_price(seat_of), FREE), (_explain(seat_of), FREE),
                              (_ask(seat_of), CHARGED), (_validate(seat_of), CHARGED), (_released(seat_of), FREE),
                              (_check_claims(seat_of), FREE)):
        server.add_tool(tool, annotations=annotations)
    for topic in guides.TOPICS:
        server.add_resource(FunctionResource(
            uri=f"dpsql://guides/{topic}", name=f"guide: {topic}", description=guides.summary(topic), mime_type="text/markdown",
            fn=functools.partial(guides.page, topic)))
    server.add_prompt(Prompt.from_function(
        _analyse, name="analyse", description="Answer a question: first what is free, then a plan of the budget"))
    return server


def _analyse(question: Annotated[str, Field(description="What you want to know of the data")]) -> str:
    return analyse(question)


async def told(seat: AgentSeat, work: Callable[[AgentDesk], ToolResult], text: str = "") -> Any:
    """The result of a tool, or its error with code, place and advice."""
    try:
        return await seat.do(functools.partial(_outcome, work), text)
    except Error as refused:
        return _error(refused)


def _outcome(work: Callable[[AgentDesk], ToolResult], desk: AgentDesk) -> Any:
    """What came of work. An unexpected fault has a constant text: what it was may depend on private rows."""
    fault: Error
    try:
        made = work(desk)
        return CallToolResult(content=[TextContent(type="text", text=made.words)], structured_content=made.data)
    except Error as caught:
        fault = caught
    except Exception:
        fault = InternalError("a fault of dpsql itself; what was charged stays charged, and its answer is kept", code="fault")
    if fault.code in OVER:
        raise fault
    return _error(fault)


def _error(fault: Error) -> Any:
    return CallToolResult(content=[TextContent(type="text", text=str(fault))], structured_content=fault.as_dict(), is_error=True)


def _catalogue(seat_of: SeatOf) -> Callable[..., Any]:
    async def catalogue(
        ctx: Context, table: Annotated[str | None, Field(description="One table, with more of its declared values")] = None,
    ) -> Annotated[CallToolResult, CatalogueForm]:
        """Tables, columns, declared values, bounds, what is left of the budget, and example statements. Free: call it first."""
        return await told(seat_of(ctx), lambda desk: desk.catalogue(table))

    return catalogue


def _price(seat_of: SeatOf) -> Callable[..., Any]:
    async def price(sql: Sql, ctx: Context) -> Annotated[CallToolResult, PriceForm]:
        """What a statement would cost now, and the expected standard error of each number. Free: nothing is charged."""
        return await told(seat_of(ctx), lambda desk: desk.price(sql), sql)

    return price


def _explain(seat_of: SeatOf) -> Callable[..., Any]:
    async def explain(sql: Sql, ctx: Context) -> Annotated[CallToolResult, PlanForm]:
        """How a statement would be answered: plan, bounds, mechanism, expected errors, and why not otherwise. Free."""
        return await told(seat_of(ctx), lambda desk: desk.explain(sql), sql)

    return explain


def _ask(seat_of: SeatOf) -> Callable[..., Any]:
    async def consent(sql: str, most: float | None, ctx: Context) -> Agreement | Elicit[Agreement]:
        return await _question(seat_of, sql, most, ctx)

    async def ask(
        sql: Sql, purpose: Purpose, agreed: Annotated[ElicitationResult[Agreement], Resolve(consent)], ctx: Context,
        most: Most = None,
    ) -> Annotated[CallToolResult, AnsweredForm]:
        """Answer a statement and charge its price to the budget. Charges cannot be undone. The same statement is free again."""
        return await told(seat_of(ctx), lambda desk: desk.ask(sql, purpose, most, is_agreed=_is_agreed(agreed)), sql)

    return ask


def _validate(seat_of: SeatOf) -> Callable[..., Any]:
    async def consent(queries: list[str], table: str, within: str, options: str, most: float | None,
                      ctx: Context) -> Agreement | Elicit[Agreement]:
        try:
            sql = validate_statement(queries, table, within, options)
        except Error:
            return Agreement(agree=False)
        return await _question(seat_of, sql, most, ctx)

    async def validate(
        queries: Annotated[list[str], Field(description="Queries with one aggregate each, such as SELECT COUNT(*) FROM people")],
        table: Annotated[str, Field(description="The name of the synthetic or public table")],
        within: Annotated[str, Field(description="The largest difference: 200, 5 PERCENT, or 5 PERCENT OR 10")],
        purpose: Purpose, agreed: Annotated[ElicitationResult[Agreement], Resolve(consent)], ctx: Context,
        options: Annotated[str, Field(description="Options of VALIDATE, such as epsilon = 0.2")] = "", most: Most = None,
    ) -> Annotated[CallToolResult, AnsweredForm]:
        """Decide whether a synthetic table answers queries like the private one, within a tolerance. Charged as one statement."""
        return await told(seat_of(ctx), lambda desk: desk.validate(
            queries, table, within, purpose, most, options, is_agreed=_is_agreed(agreed)), "\n".join(queries))

    return validate


def _released(seat_of: SeatOf) -> Callable[..., Any]:
    async def released(
        ctx: Context, number: Annotated[int | None, Field(description="The number of a statement, for its answer")] = None,
        contains: Annotated[str, Field(description="Only statements whose text or purpose contains this")] = "",
        offset: Annotated[int, Field(description="How many statements, or rows of the answer, to skip")] = 0,
    ) -> Annotated[CallToolResult, ReleasedForm]:
        """What was released to this account before: statements, purposes and answers. Free: look here before you ask."""
        return await told(seat_of(ctx), lambda desk: desk.released(number, contains, offset))

    return released


def _check_claims(seat_of: SeatOf) -> Callable[..., Any]:
    async def check_claims(
        text: Annotated[str, Field(description="A text with numbers, such as the draft of a report")], ctx: Context,
    ) -> Annotated[CallToolResult, ClaimsForm]:
        """Compare each number of a text with what was released: supported, contradicted, or not from here. Free."""
        return await told(seat_of(ctx), lambda desk: desk.check_claims(text))

    return check_claims


async def _question(seat_of: SeatOf, sql: str, most: float | None, ctx: Any) -> Any:
    """The question to a person, if one is needed and the client can show it; otherwise no agreement, and `ask` decides."""
    can_show = ctx.client_capabilities is not None and (shows := ctx.client_capabilities.elicitation) is not None and (
        shows.form is not None or shows.url is None)
    if not can_show:
        return Agreement(agree=False)
    try:
        question = await seat_of(ctx).do(lambda desk: desk.question_for_person(sql, most), sql)
    except Exception:  # `ask` meets the same fault, and reports it
        return Agreement(agree=False)
    return Agreement(agree=False) if question is None else Elicit(question, Agreement)


def _is_agreed(outcome: Any) -> bool:
    return isinstance(outcome, AcceptedElicitation) and isinstance(outcome.data, Agreement) and outcome.data.agree
