"""Responses of OpenAI's Responses API, with or without their requests: `{"output": [items], "status", …}`.

A record is a response; or an object with the items of both sides, `{"input", "output"}`; or a request and its response,
`{"request", "response"}`, also as the Batch API writes them, where the response stands under `body`. The items become
messages of chat (`rubrics.formats.responses`), so the steps are those of `rubrics.formats.chat`: the input and the
`instructions` are the observation before the first action, also what assistants said in it.

The status says how it ended: completed (terminated, unless a call waits for its result), incomplete (truncated), failed
(error), cancelled (abandoned). Reward, group, task and metadata are read as from OpenAI chats, see
`rubrics.formats.openai_chat`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rubrics.formats.parsing import FormatError, FormatProblem, Parsed
from rubrics.formats.recorded import labelled, labelled_end
from rubrics.formats.registry import reader
from rubrics.formats.responses import end_of_response, response_of, steps_of_response
from rubrics.formats.source import Source
from rubrics.trajectory import Trajectory

_READ = ("input", "output", "instructions", "request", "response")


def _responses(record: Any) -> bool:
    if not isinstance(record, dict):
        return False
    response = response_of(record)
    return response is not None and (
        response.get("object") == "response" or any(map(_is_item, response["output"])) or "input" in record
    )


def _is_item(value: Any) -> bool:
    return isinstance(value, dict) and (value.get("type") in ("message", "reasoning") or "call_id" in value)


@reader("openai-responses", detect=_responses)
def read_openai_responses(source: Source) -> Iterator[Trajectory | FormatProblem]:
    """OpenAI Responses: {output: [items], status, …}, alone or as {input, output} or {request, response}."""
    return source.each(lambda record: _trajectory(record, source))


def _trajectory(record: Parsed, source: Source) -> Trajectory:
    data = record.value
    response = response_of(data) if isinstance(data, dict) else None
    if response is None:
        raise FormatError("expected an object with the output of a response, or with a response under 'response'")
    request = data.get("request")
    if isinstance(request, dict) and isinstance(request.get("body"), dict):
        request = request["body"]
    end = labelled_end(data, None) or end_of_response(response)
    given = request if isinstance(request, dict) else data
    initial, steps = steps_of_response(given, response, done=end == "terminated")
    about = {} if response is data else {name: value for name, value in response.items() if name not in _READ}
    return labelled(
        data, source, record.line, id=response.get("id"), initial=initial, steps=steps, end=end, read=_READ, about=about
    )
