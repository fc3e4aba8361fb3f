"""`OpenAICompatibleClient`: vLLM, llama.cpp, SGLang and the like, by aiohttp; a twentieth of litellm's cost a call."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import finalize

from judges.clients.protocol import ChatError, ChatReply, ChatRequest, Wire
from judges.clients.reading import error_of, reply_of, structured
from judges.clients.secret import host_of, key_from, masked
from judges.verdict import JudgeConfigError

if TYPE_CHECKING:
    import aiohttp


class OpenAICompatibleClient:
    """A client of one server that speaks OpenAI's chat completions.

    Args:
        api_base: the address up to and with `/v1`; by default `JUDGE_API_BASE`.
        api_key: by default `JUDGE_API_KEY`; without one "none" is sent, never a provider's key.
        wire: the form in which structured output is asked for first; `"tool"` for servers that only know tool calls.
        extra: more fields of every request's body.
        max_tokens_field: the name of the token limit; newer models of OpenAI want `max_completion_tokens`.
        endpoint: the name it goes by in stores and messages; by default the host.

    Raises:
        JudgeConfigError: there is no usable address.
    """

    local = False

    def __init__(
        self,
        api_base: str | None = None,
        api_key: str | None = None,
        *,
        wire: Wire = "json_schema",
        extra: Mapping[str, Any] | None = None,
        max_tokens_field: str = "max_tokens",
        endpoint: str | None = None,
    ) -> None:
        api_base = api_base or os.environ.get("JUDGE_API_BASE")
        api_key = api_key or os.environ.get("JUDGE_API_KEY")
        if not api_base:
            raise JudgeConfigError("OpenAICompatibleClient: give api_base, or set JUDGE_API_BASE")
        host = host_of(api_base, "OpenAICompatibleClient")
        self.address = api_base.rstrip("/")
        self.endpoint = endpoint or host
        self.wire: Wire = wire
        self._key = key_from(api_key or "none")
        self._extra = dict(extra or {})
        self._limit_field = max_tokens_field
        try:
            fields = json.dumps(self._extra, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise JudgeConfigError(f"OpenAICompatibleClient: extra cannot be sent as JSON: {error}") from None
        self.identity = (self.address, self._key, wire, max_tokens_field, fields)
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: finalize[..., OpenAICompatibleClient] | None = None

    def __repr__(self) -> str:
        return f"OpenAICompatibleClient({self.address!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_session": None, "_loop": None, "_end": None}

    async def send(self, request: ChatRequest) -> ChatReply:
        """Send one request, once; on the loop it was first used on, or a new one.

        Raises:
            ChatError: there is no reply.
        """
        import aiohttp

        session = self._session_here()
        problem: str
        try:
            async with session.post(
                f"{self.address}/chat/completions", data=self._body(request), allow_redirects=False
            ) as response:
                status, headers = response.status, response.headers
                said = self._key.hidden((await response.read()).decode("utf-8-sig", "replace"))
        except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError) as error:
            problem = masked(f"{type(error).__name__}: {error}", [self._key])
        except UnicodeError as error:
            raise ChatError("request", f"the request cannot be written: {error}", sent=False) from None
        else:
            return self._read(status, headers, said)
        # Outside the handler: the exception of the HTTP library holds the headers that were sent.
        raise ChatError("transport", f"{self.endpoint}: {problem}")

    def _body(self, request: ChatRequest) -> bytes:
        body: dict[str, Any] = {
            "model": request.model,
            "messages": request.messages,
            self._limit_field: request.max_tokens,
            **structured(request),
            **self._extra,
            **request.sampling,
        }
        if request.top_logprobs is not None:
            body["logprobs"] = True
            body["top_logprobs"] = request.top_logprobs
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()

    def _read(self, status: int, headers: Mapping[str, str], said: str) -> ChatReply:
        try:
            body = json.loads(said)
        except (ValueError, RecursionError):
            body = None
        if not 200 <= status < 300:
            error = body.get("error", body.get("detail")) if isinstance(body, dict) else None
            if error is None and isinstance(body, dict):
                error = body
            low = {name.lower(): value for name, value in headers.items()}
            raise error_of(status, said, low, error, [self._key])
        if not isinstance(body, dict):
            text = masked(" ".join(said[:400].split()), [self._key])
            raise ChatError(
                "transport", f"{self.endpoint} answered what is no JSON object: {text[:200]!r}", status=status
            )
        return reply_of(body, [self._key])

    def _session_here(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if self._session is None or self._loop is not loop or self._session.closed:
            import aiohttp

            from judges.io import on_exit

            if self._session is not None and self._loop is not None and not self._loop.is_closed():
                raise JudgeConfigError(
                    f"{self!r} is in use on another event loop; make a client a loop, or use a judge"
                )
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
                headers={"Authorization": f"Bearer {self._key.reveal()}", "Content-Type": "application/json"},
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=30.0),
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
            self._loop = loop
            self._end = finalize(self, _close_later, loop, self._session)
            self._end.atexit = False
            on_exit(self)
        return self._session

    def forget(self) -> None:
        """Leave the connections alone: they belong to the process that this one was forked from."""
        _inherited.append(self._session)
        self._session = None
        if self._end is not None:
            self._end.detach()

    async def close(self) -> None:
        """Close its connections. It may be used again afterwards."""
        session, self._session = self._session, None
        if self._end is not None:
            self._end.detach()
        if session is not None:
            await session.close()


def _close_later(loop: asyncio.AbstractEventLoop, session: aiohttp.ClientSession) -> None:
    """Close the connections of a client that nobody holds any more."""
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(lambda: loop.create_task(session.close()))


_inherited: list[Any] = []
