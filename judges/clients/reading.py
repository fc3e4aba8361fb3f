"""What OpenAI-compatible providers say, read in one way: replies, error bodies, and how long to wait."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from judges.clients.protocol import ChatError, ChatReply, ChatRequest, Token, Wire
from judges.clients.secret import Secret, masked
from judges.verdict import FailureKind
from rubrics.evaluation import Usage

_TOOL = "answer"
_TOO_LONG = (
    "context length",
    "context_length",
    "context size",
    "context window",
    "maximum context",
    "exceed_context",
    "too many tokens",
    "prompt is too long",
    "input is too long",
    "reduce the length",
)
_REFUSED = ("content_filter", "content_policy", "content policy", "content management policy", "responsibleai")
_SCHEMA = (
    "response_format",
    "json_schema",
    "json_object",
    "json schema",
    "json mode",
    "structured output",
    "guided_json",
    "response_schema",
    "tool_choice",
    "tools",
    "output_config",
    "output_format",
)
_NO_QUOTA = ("insufficient_quota", "billing_hard_limit", "credit balance is too low")


def structured(request: ChatRequest) -> dict[str, Any]:
    """The parameters that ask for an object, in the form of the request."""
    if request.schema is None or request.wire == "text":
        return {}
    if request.wire == "json_object":
        return {"response_format": {"type": "json_object"}}
    if request.wire == "tool":
        function = {"name": _TOOL, "description": "Give your answer.", "parameters": request.schema}
        return {
            "tools": [{"type": "function", "function": function}],
            "tool_choice": {"type": "function", "function": {"name": _TOOL}},
        }
    schema = {"name": _TOOL, "strict": True, "schema": request.schema}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def simpler(wire: Wire) -> Wire | None:
    """The form to try where a provider does not know this one; None where there is none."""
    steps: dict[Wire, Wire] = {"json_schema": "json_object", "json_object": "text", "tool": "text"}
    return steps.get(wire)


# -- replies ----------------------------------------------------------------------------------------------------------


def reply_of(body: Mapping[str, Any], secrets: Iterable[Secret | None]) -> ChatReply:
    """A reply out of the body of a chat completion.

    Raises:
        ChatError: it is an error after all, or not of that form.
    """
    error = body.get("error")
    if error:
        raise error_in_body(error, secrets)
    choices = body.get("choices")
    if not isinstance(choices, Sequence) or isinstance(choices, str):
        raise ChatError(
            "transport", f"the reply is no chat completion: it has {', '.join(map(str, body)) or 'no keys'}"
        )
    usage = usage_of(body.get("usage"))
    model = body.get("model")
    model = model if isinstance(model, str) else None
    if not choices:
        return ChatReply("", usage=usage, model=model)
    choice = choices[0]
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(message, Mapping):
        raise ChatError("transport", "the reply is no chat completion: its choice has no message")
    text = text_of(message.get("content"))
    calls = message.get("tool_calls")
    if not text and calls:
        text = arguments_of(calls)
    finish = choice.get("finish_reason")
    refusal = message.get("refusal")
    logprobs = choice.get("logprobs")
    tokens = tokens_of(logprobs.get("content")) if isinstance(logprobs, Mapping) else None
    return ChatReply(
        text,
        finish if isinstance(finish, str) else None,
        masked(refusal, secrets) if isinstance(refusal, str) and refusal else None,
        tokens,
        usage,
        model,
    )


def text_of(content: Any) -> str:
    """The text of a message's content, which may be a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        parts = (
            part.get("text") for part in content if isinstance(part, Mapping) and part.get("type") in ("text", None)
        )
        return "".join(part for part in parts if isinstance(part, str))
    return ""


def arguments_of(calls: Any) -> str:
    """The arguments of the tool call by which a reply was asked for, as text."""
    for call in calls if isinstance(calls, Sequence) else ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(function, Mapping) and isinstance(function.get("arguments"), str):
            return str(function["arguments"])
    return ""


def tokens_of(content: Any) -> tuple[Token, ...] | None:
    """The log probabilities of a reply, token by token; None where there are none."""
    if not isinstance(content, Sequence) or isinstance(content, str) or not content:
        return None
    return tuple(_token(entry) for entry in content if isinstance(entry, Mapping))


def _token(entry: Mapping[str, Any]) -> Token:
    text = str(entry.get("token", ""))
    data = entry.get("bytes")
    top = entry.get("top_logprobs") or ()
    return Token(
        text,
        bytes(data) if isinstance(data, Sequence) and not isinstance(data, str) and data else text.encode(),
        float(entry.get("logprob", -math.inf)),
        tuple(
            (str(other.get("token", "")), float(other.get("logprob", -math.inf)))
            for other in top
            if isinstance(other, Mapping)
        ),
    )


def usage_of(usage: Any) -> Usage:
    """What a reply cost: one call, and the tokens the provider counted."""
    if not isinstance(usage, Mapping):
        return Usage(calls=1)
    prompt, completion = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    details = usage.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, Mapping) else 0
    total = _count(usage.get("total_tokens")) or prompt + completion
    return Usage(1, prompt, cached, completion, total)


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


# -- errors -----------------------------------------------------------------------------------------------------------


def error_of(
    status: int, text: str, headers: Mapping[str, str], error: Any = None, secrets: Iterable[Secret | None] = ()
) -> ChatError:
    """The failure that an HTTP status and its body stand for.

    Args:
        status: 300 or above.
        text: the body.
        headers: of the reply, under lower-case names.
        error: the decoded `error` of the body, where it has one.
        secrets: keys to mask.
    """
    said, code = _words(error)
    clean = masked(said or " ".join(text.split()), secrets)
    message = f"HTTP {status}: {clean[:500] or ('a redirect, which is not followed' if status < 400 else 'no words')}"
    hay = f"{clean} {code}".lower()
    kind: FailureKind = "request"
    retry_after: float | None = None
    rejects: Literal["schema", "logprobs"] | None = None
    if status in (401, 403):
        kind = "auth"
    elif status == 429:
        kind = "rate_limit"
        retry_after = math.inf if any(word in hay for word in _NO_QUOTA) else wait_of(headers)
    elif status == 408 or status >= 500:
        kind = "transport"
        retry_after = wait_of(headers)
    elif status == 413 or any(word in hay for word in _TOO_LONG):
        kind = "too_long"
    elif any(word in hay for word in _REFUSED):
        kind = "refused"
    elif status in (400, 422):
        rejects = "logprobs" if "logprobs" in hay else "schema" if any(word in hay for word in _SCHEMA) else None
        kind = "logprobs" if rejects == "logprobs" else "request"
    if status >= 500 and any(word in hay for word in _TOO_LONG):  # some servers answer 500
        kind = "too_long"
    return ChatError(kind, message, status=status, retry_after=retry_after, rejects=rejects)


def error_in_body(error: Any, secrets: Iterable[Secret | None]) -> ChatError:
    """The failure in a body that came with status 200."""
    said, code = _words(error)
    status = next((int(part) for part in code.split() if part.isdigit() and 400 <= int(part) < 600), None)
    if status is None:
        return ChatError("transport", f"HTTP 200 with an error: {masked(said, secrets)[:500] or code or 'no words'}")
    found = error_of(status, said, {}, error, secrets)
    return ChatError(found.kind, f"in a reply with HTTP 200, {found.message}", status=status, rejects=found.rejects)


def _words(error: Any) -> tuple[str, str]:
    """Message and codes of an error body."""
    if isinstance(error, Mapping):
        said = error.get("message")
        codes = " ".join(str(error.get(name)) for name in ("code", "type", "param", "status") if error.get(name))
        return (said if isinstance(said, str) else ""), codes
    return (error if isinstance(error, str) else ""), ""


def wait_of(headers: Mapping[str, str]) -> float | None:
    """Seconds that a reply asks to wait, from `retry-after-ms` or `Retry-After` (seconds or a date)."""
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = headers.get(name)
        if not value:
            continue
        try:
            seconds = float(value) * scale
        except ValueError:
            try:
                seconds = parsedate_to_datetime(value).timestamp() - time.time()
            except (TypeError, ValueError):
                continue
        if math.isfinite(seconds):
            return max(seconds, 0.0)
    return None
