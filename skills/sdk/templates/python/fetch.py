"""Requests to granted hosts, by the part of wasi:http that the host gives."""

from dataclasses import dataclass

from componentize_py_types import Err, Ok
from wit_world.imports import outgoing_handler
from wit_world.imports import wasi_http_types as http
from wit_world.imports.streams import StreamError_Closed
from wit_world.imports.tool_skill_types import Failure

METHODS = {
    "GET": http.Method_Get, "HEAD": http.Method_Head, "POST": http.Method_Post, "PUT": http.Method_Put,
    "DELETE": http.Method_Delete, "CONNECT": http.Method_Connect, "OPTIONS": http.Method_Options,
    "TRACE": http.Method_Trace, "PATCH": http.Method_Patch,
}

CHUNK_BYTES = 4096


@dataclass
class Response:
    status: int
    headers: list[tuple[str, str]]
    body: bytes


class InvalidRequest(Exception):
    """A request with a part that is not valid; the argument names the part."""


def send(method: str, url: str, headers: dict[str, str] = {}, body: bytes = b"") -> Response:
    """Sends a request to `https://HOST/PATH`. Raises a failure where there is no answer."""
    try:
        return exchange(method, url, headers, body)
    except InvalidRequest as error:
        raise Err(Failure("invalid-arguments", f"the {error} of the request is not valid", None))
    except Err as error:
        raise Err(Failure("unavailable", f"{method} {url}: {reason(error.value)}", None))


def reason(error) -> str:
    """The host's own words for an error, or the error's name in wasi:http."""
    return getattr(error, "value", None) or type(error).__name__.removeprefix("ErrorCode_")


def exchange(method: str, url: str, headers: dict[str, str], body: bytes) -> Response:
    """The same, which raises the errors of wasi:http."""
    fields = http.Fields()
    for name, value in headers.items():
        fields.append(name, value.encode())
    scheme, _, rest = url.rpartition("://") if "://" in url else ("https", "", url)
    authority, _, path = rest.partition("/")
    request = http.OutgoingRequest(fields)
    part("method", request.set_method, METHODS[method]() if method in METHODS else http.Method_Other(method))
    part("scheme", request.set_scheme, http.Scheme_Http() if scheme == "http" else http.Scheme_Https())
    part("authority", request.set_authority, authority)
    part("path", request.set_path_with_query, f"/{path}")
    outgoing = request.body() if body else None
    with outgoing_handler.handle(request, None) as future:
        if outgoing:
            write(outgoing, body)
        with future.subscribe() as ready:
            ready.block()
        match future.get():
            case Ok(Ok(response)):
                return read(response)
            case Ok(Err() as error):
                raise error
            case _:
                raise Err(None)


def part(name, setter, value):
    try:
        setter(value)
    except Err:
        raise InvalidRequest(name)


def write(outgoing, body: bytes):
    with outgoing.write() as stream:
        for at in range(0, len(body), CHUNK_BYTES):
            stream.blocking_write_and_flush(body[at : at + CHUNK_BYTES])
    http.OutgoingBody.finish(outgoing, None)


def read(response) -> Response:
    with response:
        with response.headers() as fields:
            headers = [(name, value.decode(errors="replace")) for name, value in fields.entries()]
        incoming, parts = response.consume(), []
        with incoming.stream() as stream:
            while True:
                try:
                    parts.append(stream.blocking_read(65536))
                except Err as error:
                    if isinstance(error.value, StreamError_Closed):
                        break
                    raise
        with http.IncomingBody.finish(incoming):
            return Response(response.status(), headers, b"".join(parts))
