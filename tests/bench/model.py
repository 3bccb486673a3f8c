"""A model server that answers at once: a sentence, some tool calls and then the sentence, or very many tokens."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BLOCK_BYTES = 64 * 1024


class Model:
    """See the module; what it says next is in its fields."""

    def __init__(self):
        self.calls = []
        self.tokens = 0
        self.one_by_one = False
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.model = self
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def says(self, calls=(), tokens=0, one_by_one=False):
        self.calls, self.tokens, self.one_by_one = list(calls), tokens, one_by_one


class Handler(BaseHTTPRequestHandler):
    """One connection of the OpenAI-compatible wire."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_GET(self):
        known = self.path == "/v1/models"
        body = json.dumps({"object": "list", "data": [{"id": "scripted", "object": "model"}]} if known else {}).encode()
        self.send_response(200 if known else 404)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        model = self.server.model
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        has_results = any(message["role"] == "tool" for message in request["messages"])
        if model.calls and not has_results:
            calls = [
                {"index": at, "id": f"call_{at}", "type": "function",
                 "function": {"name": name, "arguments": json.dumps(arguments)}}
                for at, (name, arguments) in enumerate(model.calls)
            ]
            self.wfile.write(frame({"tool_calls": calls}) + frame({}, "tool_calls") + DONE)
        elif model.tokens:
            self.many(model.tokens, model.one_by_one)
        else:
            self.wfile.write(frame({"content": "It is a library."}) + frame({}, "stop") + DONE)

    def many(self, tokens, one_by_one):
        """Tokens of a few letters, 24 a line: many to a write, or each in a write of its own."""
        line = [frame({"content": "word " if at < 23 else "word\n"}) for at in range(24)]
        if one_by_one:
            for at in range(tokens):
                self.wfile.write(line[at % 24])
        else:
            lines = max(1, BLOCK_BYTES // len(b"".join(line)))
            block = b"".join(line) * lines
            whole, rest = divmod(tokens, 24 * lines)
            for _ in range(whole):
                self.wfile.write(block)
            self.wfile.write(b"".join(line[at % 24] for at in range(rest)))
        self.wfile.write(frame({}, "stop") + DONE)


DONE = b"data: [DONE]\n\n"


def frame(delta, finish=None):
    chunk = {
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"
