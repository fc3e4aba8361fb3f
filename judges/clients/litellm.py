"""`LiteLLMClient`: every provider that litellm knows.

litellm takes seconds to import, so the first request imports it, in a thread. Its retries and its cache stay off: the
judge retries, and the store keeps.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from types import CoroutineType
from typing import Any
from urllib.parse import urlsplit

from judges.clients.protocol import ChatError, ChatReply, ChatRequest, Price, Wire
from judges.clients.reading import arguments_of, error_of, structured, text_of, tokens_of, usage_of
from judges.clients.secret import Secret, host_of, key_from, masked
from judges.verdict import JudgeConfigError

_NO_KEY = (
    "missing credentials",
    "api_key client option must be set",
    "missing gemini api key",
    "missing anthropic api",
)
_OPENAI = "https://api.openai.com/v1"
_OPENAI_LIKE = ("openai", "custom_openai", "text-completion-openai", "aiohttp_openai")
_NO_ORGANIZATION = {"OpenAI-Organization": "", "OpenAI-Project": ""}


class LiteLLMClient:
    """A client of every provider, by litellm; the model is named as litellm names it, such as `anthropic/…`.

    Args:
        api_base: an address of your own; by default `JUDGE_API_BASE`, then the provider's. `OPENAI_BASE_URL` is never
            followed: a training rig points it at the policy.
        api_key: by default `JUDGE_API_KEY`, then, where there is no address of your own, the provider's variable. With
            an address and no key "none" is sent.
        wire: the form in which structured output is asked for first.
        endpoint: the name it goes by in stores and messages; by default the host, or the provider.
    """

    local = False

    def __init__(
        self,
        api_base: str | None = None,
        api_key: str | None = None,
        *,
        wire: Wire = "json_schema",
        endpoint: str | None = None,
    ) -> None:
        self.api_base = (api_base or os.environ.get("JUDGE_API_BASE") or "").rstrip("/") or None
        key = api_key or os.environ.get("JUDGE_API_KEY") or ("none" if self.api_base else None)
        self._key = key_from(key) if key else None
        self.wire: Wire = wire
        host = None if self.api_base is None else host_of(self.api_base, "LiteLLMClient")
        self.endpoint = endpoint or host or "litellm"
        self.address = self.api_base or "litellm"
        self.identity = ("litellm", self.api_base, self._key, wire)
        self._routes: dict[str, tuple[str, str | None]] = {}

    def __repr__(self) -> str:
        return f"LiteLLMClient({'' if self.api_base is None else repr(self.api_base)})"

    async def prepare(self) -> None:
        """Import litellm, in a thread, where that was not done yet."""
        await _litellm()

    async def prices(self, model: str) -> Price | None:
        """What the model costs by litellm's own table, which travels with its release; None where it is not there."""
        litellm = await _litellm()
        try:
            prompt, completion = litellm.cost_per_token(model=model, prompt_tokens=10**6, completion_tokens=10**6)
        except Exception:  # litellm raises several kinds for a model it does not know
            return None
        return Price(prompt, completion) if prompt or completion else None

    async def send(self, request: ChatRequest) -> ChatReply:
        """Send one request, once.

        Raises:
            ChatError: there is no reply.
        """
        litellm = await _litellm()
        model, base = self._route(litellm, request.model)
        parameters: dict[str, Any] = {**structured(request), **request.sampling}
        if request.top_logprobs is not None:
            parameters.update(logprobs=True, top_logprobs=request.top_logprobs)
        if base is not None and model.startswith(("azure/", "azure_text/")):  # by OpenAI's SDK, which adds the policy's
            parameters["extra_headers"] = {**_NO_ORGANIZATION, **request.sampling.get("extra_headers", {})}
        try:
            completion = litellm.acompletion(
                model=model,
                messages=[dict(message) for message in request.messages],
                max_tokens=request.max_tokens,
                api_base=base,
                api_key=None if self._key is None else self._key.reveal(),
                num_retries=0,
                max_retries=0,
                timeout=86_400.0,  # a request's time is the judge's to keep, by the wall clock
                **parameters,
            )
            return _reply(await _cancellable(completion), self._key)
        except ChatError:
            raise
        except Exception as error:  # litellm's errors have no base class of their own
            failure = self._failure(litellm, error)
        raise failure  # outside the handler: the provider's exception holds the headers that were sent

    def _route(self, litellm: Any, model: str) -> tuple[str, str | None]:
        """The model and the address as litellm is to have them."""
        route = self._routes.get(model)
        if route is None:
            try:
                name, provider, _, home = litellm.get_llm_provider(model, api_base=self.api_base)
            except litellm.exceptions.BadRequestError:
                if self.api_base is None:
                    raise ChatError(
                        "request",
                        f"litellm does not know the provider of {model!r}: name it as provider/model, or give api_base",
                        sent=False,
                    ) from None
                name, provider, home = model, "openai", None
            route = (model, self.api_base)
            if self.api_base is None:
                if provider in _OPENAI_LIKE:
                    route = (model, _OPENAI)
                elif home is None and provider in litellm.openai_compatible_providers:
                    raise ChatError("request", f"give the address of {provider!r} as api_base", sent=False)
            elif urlsplit(self.api_base).hostname != "api.openai.com" and (
                provider in _OPENAI_LIKE or provider in litellm.openai_compatible_providers
            ):  # by any other way litellm would send OPENAI_ORGANIZATION and OPENAI_PROJECT_ID along
                route = (f"hosted_vllm/{name}", self.api_base)
            self._routes[model] = route
        return route

    def _failure(self, litellm: Any, error: Exception) -> ChatError:
        text = masked(str(getattr(error, "message", None) or error), [self._key])
        kinds = litellm.exceptions
        answered = getattr(error, "litellm_response_headers", None)
        if isinstance(error, kinds.Timeout) and not answered:  # else it was a 408
            return ChatError("timeout", text)
        if not answered and any(word in text.lower() for word in _NO_KEY):
            provider = getattr(error, "llm_provider", None) or "the provider"
            return ChatError("auth", f"there is no key for {provider}: {text.splitlines()[0][:300]}", sent=False)
        if isinstance(error, kinds.ContextWindowExceededError):
            return ChatError("too_long", text, status=400)
        if isinstance(error, kinds.ContentPolicyViolationError):
            return ChatError("refused", text, status=400)
        if isinstance(error, kinds.UnsupportedParamsError):
            found = error_of(400, text, {}, None, [self._key])
            return ChatError(found.kind, text, rejects=found.rejects, sent=False)
        if isinstance(error, (kinds.APIConnectionError, kinds.APIResponseValidationError)):
            return ChatError("transport", text)
        status = getattr(error, "status_code", None)
        if isinstance(status, int) and status >= 300:
            headers = answered or getattr(getattr(error, "response", None), "headers", None) or {}
            low = {str(name).lower(): str(value) for name, value in headers.items()}
            return error_of(status, text, low, None, [self._key])
        if isinstance(error, kinds.APIError):  # a reply with status 200 that litellm could not read
            return ChatError("transport", text)
        return ChatError("request", f"{type(error).__name__}: {text}")


async def _cancellable(completion: Coroutine[Any, Any, Any]) -> Any:
    """Await a completion of litellm's so that it can be cancelled.

    `acompletion` has its request prepared as a coroutine in another thread; cancelled just then, it would leave that
    coroutine un-awaited. So a cancellation waits for those milliseconds.
    """
    task = asyncio.ensure_future(completion)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done() and _is_prepared(completion):  # noqa: ASYNC110  nothing tells of it
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
        raise


def _is_prepared(coroutine: Any) -> bool:
    while isinstance(coroutine.cr_await, CoroutineType):
        coroutine = coroutine.cr_await
    return bool(coroutine.cr_code.co_name == "acompletion")


_loaded: Any = None


def imported() -> Any:
    """litellm, kept from asking the network for prices and from reading a `.env` file as it is imported."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # or it fetches a price list over the network
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")  # or it reads a .env file
    import litellm

    litellm.suppress_debug_info = True
    return litellm


async def _litellm() -> Any:
    global _loaded
    if _loaded is None:
        try:
            _loaded = await asyncio.get_running_loop().run_in_executor(None, imported)
        except ImportError as error:
            raise JudgeConfigError(f"litellm cannot be imported: {error}; install it, or give a client") from None
        from judges.io import on_exit

        on_exit(_CONNECTIONS)
    return _loaded


def _reply(response: Any, key: Secret | None) -> ChatReply:
    usage = usage_of(_mapping(getattr(response, "usage", None)))
    cost = (getattr(response, "_hidden_params", None) or {}).get("response_cost")
    if isinstance(cost, (int, float)) and cost > 0:
        usage = replace(usage, cost=float(cost))
    model = getattr(response, "model", None)
    choices = getattr(response, "choices", None)
    if not choices:
        return ChatReply("", usage=usage, model=model)
    choice = choices[0]
    message = choice.message
    text = text_of(getattr(message, "content", None))
    calls = getattr(message, "tool_calls", None)
    if not text and calls:
        text = arguments_of([call.model_dump() for call in calls])
    text = text if key is None else key.hidden(text)
    refusal = getattr(message, "refusal", None) or (getattr(message, "provider_specific_fields", None) or {}).get(
        "refusal"
    )
    logprobs = _mapping(getattr(choice, "logprobs", None))
    return ChatReply(
        text,
        getattr(choice, "finish_reason", None),
        masked(refusal, [key]) if isinstance(refusal, str) and refusal else None,
        tokens_of(logprobs.get("content")) if logprobs else None,
        usage,
        model if isinstance(model, str) else None,
    )


def _mapping(value: Any) -> Mapping[str, Any] | None:
    if value is None or isinstance(value, Mapping):
        return value
    return value.model_dump() if hasattr(value, "model_dump") else None


class _Connections:
    """litellm keeps its connections itself, by event loop; they are closed when the interpreter ends."""

    async def close(self) -> None:
        with suppress(Exception):  # some releases lack it, and the system closes what is left
            await _loaded.close_litellm_async_clients()
            _loaded.in_memory_llm_clients_cache.flush_cache()

    def forget(self) -> None:
        """A forked child has a new loop, so litellm opens new ones; it also lets a task of the old loop go, and asyncio
        would complain of that."""
        with suppress(Exception):  # other releases may keep it elsewhere
            _inherited.append(_loaded.litellm_core_utils.logging_worker.GLOBAL_LOGGING_WORKER._worker_task)


_CONNECTIONS = _Connections()
_inherited: list[Any] = []
