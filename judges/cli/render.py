"""`judges render`: what exactly a model is sent."""

from __future__ import annotations

import json
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from judges.cli.options import GoldenOption, ModelOption, Order
from judges.cli.running import ENDING, suite_of
from judges.cli.said import refused, refusing
from rubrics.shown import printable

if TYPE_CHECKING:
    from judges.clients.protocol import ChatRequest
    from judges.testing.golden import GoldenRow, GoldenSet
    from judges.testing.subjects import Subject


def render(
    path: Annotated[
        Path, typer.Argument(metavar="PROMPT_OR_SUITE", help="A prompt file, or a suite.", show_default=False)
    ],
    case: Annotated[
        str | None, typer.Option(metavar="ID", help="The row of the golden set.", show_default=False)
    ] = None,
    golden: GoldenOption = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=VALUE", help="An input, in place of the row's.", show_default=False),
    ] = None,
    order: Annotated[Order, typer.Option(help="Of a pair: which of the two is shown first.")] = Order.given,
    sample: Annotated[int, typer.Option(min=0, help="The number of the sample.")] = 0,
    model: ModelOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the request as JSON.")] = False,
) -> None:
    """Show what exactly a model is sent about a case: model, sampling, schema, and each message with its role.

    Exit code 2: something could not be read, or the prompt cannot be rendered.
    """
    from judges.verdict import PromptError

    inputs = dict(map(_named, given or ()))
    with refusing():
        subject, row = _asked(path, golden, case, inputs, model)
        if subject.asker is None:
            raise refused(f"{path}: there is no prompt: all verdicts are recorded in the golden set")
        if order is Order.swapped and subject.kind != "pairs":
            raise refused(f"{path}: --order is of pairs, and this judge is shown no pair")
        row = row.model_copy(update={"inputs": {**row.inputs, **inputs}})
        try:
            request = subject.request(row, order.value, sample)
        except PromptError as error:
            missing = sorted(subject.prompt.variables - row.inputs.keys()) if subject.prompt is not None else []
            hint = "".join(f"; give --input {name}=VALUE" for name in missing[:1])
            raise refused(f"{error}{hint}") from None
        endpoint = subject.asker.exchanger.endpoint
    data = _data(request, endpoint)
    typer.echo(json.dumps(data, ensure_ascii=False, indent=1) if as_json else _text(data))


def _named(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not equals or not name:
        raise refused(f"--input is NAME=VALUE, not {given!r}")
    return name, value


def _asked(
    path: Path, golden: Path | None, case: str | None, inputs: dict[str, str], model: str | None
) -> tuple[Subject, GoldenRow]:
    from judges.testing.golden import GoldenRow
    from judges.testing.subjects import Subject
    from judges.testing.suite import SuiteFile, judge_of

    if path.name.endswith(ENDING) or golden is not None:
        suite = suite_of(path, golden, model=model, split="all")
        return suite.subject, _row(suite.golden, case)
    if case is not None:
        raise refused(f"{path}: --case is a row of a golden set: give --golden FILE, or a suite *{ENDING}")
    options: dict[str, Any] = {} if model is None else {"model": model}
    judge = judge_of(path, SuiteFile(golden=""), None, options)
    return Subject(judge), GoldenRow.model_validate({"id": "--input", "inputs": inputs or {"": ""}, "winner": "tie"})


def _row(golden: GoldenSet, case: str | None) -> GoldenRow:
    if case is None:
        raise refused(f"which row of {golden.path}? Give --case ID; the first is {golden.rows[0].id!r}")
    found = next((row for row in golden if row.id == case), None)
    if found is None:
        near = get_close_matches(case, [row.id for row in golden], 3)
        hint = f"; there is {', '.join(map(repr, near))}" if near else ""
        raise refused(f"{golden.path}: there is no row {case!r}{hint}")
    return found


def _data(request: ChatRequest, endpoint: str) -> dict[str, Any]:
    return {
        "model": request.model,
        "endpoint": endpoint,
        "messages": [dict(message) for message in request.messages],
        "schema": request.schema,
        "sampling": dict(request.sampling),
        "max_tokens": request.max_tokens,
        "top_logprobs": request.top_logprobs,
        "sample": request.sample,
    }


def _text(data: dict[str, Any]) -> str:
    facts = [name for name in data if name not in ("messages", "schema") and data[name] is not None]
    lines = [f"{name}: {data[name] if isinstance(data[name], str) else json.dumps(data[name])}" for name in facts]
    lines.append(f"schema: {json.dumps(data['schema'], ensure_ascii=False, indent=1)}")
    for message in data["messages"]:
        lines += ["", f"[{message['role']}]", message["content"]]
    return printable("\n".join(lines))
