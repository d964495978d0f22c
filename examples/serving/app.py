"""HTTP: ``POST /generate``, ``GET /healthz``, ``GET /metrics``."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from serving.engine import Busy, Stopped
from serving.metrics import text
from serving.service import Service
from serving.shape import Shape

_BODY = 1 << 20  # bytes of a request
_TYPE = "text/plain; version=0.0.4; charset=utf-8"  # of the text format of Prometheus


class BadRequest(ValueError):
    """A request that no service could answer, and what to change."""


def application(service: Service) -> Starlette:
    """The routes."""

    async def generate(request: Request) -> Response:
        began = time.perf_counter()
        answer = await _generated(service, request)
        service.seconds.add(time.perf_counter() - began)
        service.answered[answer.status_code] += 1
        return _last_of_its_connection(service, answer)

    async def healthz(request: Request) -> Response:
        trouble = service.trouble()
        answer = JSONResponse({"status": trouble or "ok"}, status_code=503 if trouble else 200)
        return _last_of_its_connection(service, answer)

    async def metrics(request: Request) -> Response:
        return _last_of_its_connection(service, PlainTextResponse(text(service.metrics()), media_type=_TYPE))

    return Starlette(
        routes=[
            Route("/generate", generate, methods=["POST"]),
            Route("/healthz", healthz, methods=["GET"]),
            Route("/metrics", metrics, methods=["GET"]),
        ]
    )


async def _generated(service: Service, request: Request) -> Response:
    try:
        prompt, wanted = checked(await _body(request), service.shape)
        answer = await asyncio.wrap_future(service.engine.submit(prompt, wanted))
    except BadRequest as error:
        return JSONResponse({"error": str(error)}, status_code=400)
    except (Busy, Stopped) as error:
        return JSONResponse({"error": str(error)}, status_code=503, headers={"Retry-After": "1"})
    return JSONResponse({"tokens": answer.tokens, "mark": answer.mark})


async def _body(request: Request) -> object:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > _BODY:
            raise BadRequest(f"the body is longer than {_BODY} bytes: send a shorter prompt")
    try:
        found: object = json.loads(bytes(data))
    except (ValueError, RecursionError):
        raise BadRequest('the body is not JSON: send {"prompt": [1, 2, 3], "tokens": 8}') from None
    return found


def checked(body: Any, shape: Shape) -> tuple[list[int], int]:
    """The prompt, and how many tokens are wanted.

    >>> from serving.shape import SMALL
    >>> checked({"prompt": [1, 2, 3], "tokens": 8}, SMALL)
    ([1, 2, 3], 8)
    """
    if not isinstance(body, dict) or set(body) != {"prompt", "tokens"}:
        raise BadRequest('the body has two keys: send {"prompt": [1, 2, 3], "tokens": 8}')
    prompt, wanted = body["prompt"], body["tokens"]
    if not isinstance(prompt, list) or not prompt:
        raise BadRequest("prompt is not a list of tokens with at least one: send such as [1, 2, 3]")
    for place, token in enumerate(prompt):
        if type(token) is not int or not 0 <= token < shape.vocabulary:
            raise BadRequest(f"prompt[{place}] is no token: send numbers from 0 to {shape.vocabulary - 1}")
    if type(wanted) is not int or wanted < 1:
        raise BadRequest("tokens is not a positive number: say how many are wanted")
    if len(prompt) + wanted > shape.longest:
        raise BadRequest(f"prompt and answer have {len(prompt) + wanted} tokens: ask for {shape.longest} at most")
    return prompt, wanted


def _last_of_its_connection(service: Service, answer: Response) -> Response:
    """While the service ends, each answer asks the client to go elsewhere with its next request."""
    if service.draining:
        answer.headers["Connection"] = "close"
    return answer
