"""A scripted model server that speaks four APIs: what a request holds, and the events of an answer. It keeps all requests."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def text_of(content):
    """The text of a result: a string, or a list of parts."""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or [] if isinstance(part, dict))


def prompt(body):
    """All that a server reads before it answers, as text, in the order in which it caches: tools, instructions, messages."""
    messages = next((body[key] for key in ("messages", "contents", "input") if key in body), [])
    parts = [body.get(key) for key in ("tools", "system", "instructions", "systemInstruction")]
    return "".join(json.dumps(without_marks(part), ensure_ascii=False, separators=(",", ":")) for part in [*parts, *messages])


def without_marks(value):
    """The marks of a cache move, and are no part of what is cached."""
    if isinstance(value, dict):
        return {key: without_marks(field) for key, field in value.items() if key != "cache_control"}
    return [without_marks(item) for item in value] if isinstance(value, list) else value


def shared(one, other):
    """The beginning that two texts share."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return one[:low]


def cached(prompts):
    """The beginning that each request shares with one before it: the best that a provider's cache can do."""
    return [max((shared(before, now) for before in prompts[:at]), key=len, default="") for at, now in enumerate(prompts)]


class Wire:
    """One API a method: the results that a request holds, and the events of the answer that `call` gives for them."""

    @staticmethod
    def messages(body, call):
        blocks = [b for m in body.get("messages", []) for b in (m["content"] if isinstance(m["content"], list) else [])]
        results = [text_of(b.get("content")) for b in blocks if b.get("type") == "tool_result"]
        name, arguments = call(len(results)) if body.get("tools") else (None, None)
        start = {"id": "m", "type": "message", "role": "assistant", "model": body.get("model"), "content": [],
                 "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 1}}
        if name:
            block = {"type": "tool_use", "id": f"toolu_{len(results)}", "name": name, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        else:
            block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "Done."}
        end = {"stop_reason": "tool_use" if name else "end_turn", "stop_sequence": None}
        events = [
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": end, "usage": {"output_tokens": 2}},
            {"type": "message_stop"},
        ]
        return results, events

    @staticmethod
    def responses(body, call):
        outputs = [item for item in body.get("input", []) if item.get("type") == "function_call_output"]
        results = [text_of(item["output"]) for item in outputs]
        name, arguments = call(len(results)) if body.get("tools") else (None, None)
        if name:
            space, _, name = name.rpartition("/")
            item = {"type": "function_call", "id": f"fc_{len(results)}", "call_id": f"call_{len(results)}",
                    **({"namespace": space} if space else {}), "name": name, "arguments": json.dumps(arguments),
                    "status": "completed"}
        else:
            item = {"type": "message", "id": "m", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": "Done.", "annotations": []}]}
        answer = {"id": "r", "object": "response", "created_at": 1, "model": body.get("model"), "output": [item]}
        usage = {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11,
                 "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        text = [] if name else [{"type": "response.output_text.delta", "output_index": 0, "item_id": "m",
                                 "content_index": 0, "delta": "Done."}]
        events = [
            {"type": "response.created", "response": {**answer, "status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            *text,
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {**answer, "status": "completed", "usage": usage}},
        ]
        return results, events

    @staticmethod
    def completions(body, call):
        results = [text_of(m.get("content")) for m in body.get("messages", []) if m["role"] == "tool"]
        name, arguments = call(len(results)) if body.get("tools") else (None, None)
        function = {"name": name, "arguments": json.dumps(arguments)}
        calls = [{"index": 0, "id": f"call_{len(results)}", "type": "function", "function": function}]
        delta = {"role": "assistant", **({"tool_calls": calls} if name else {"content": "Done."})}
        base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": body.get("model")}

        def chunk(delta, reason):
            return {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

        usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
        return results, [chunk(delta, None), chunk({}, "tool_calls" if name else "stop"), {**base, "choices": [], "usage": usage}]

    @staticmethod
    def streamGenerateContent(body, call):
        parts = [part for content in body.get("contents", []) for part in content["parts"]]
        results = [json.dumps(part["functionResponse"]["response"]) for part in parts if "functionResponse" in part]
        name, arguments = call(len(results)) if body.get("tools") else (None, None)
        part = {"functionCall": {"name": name, "args": arguments}} if name else {"text": "Done."}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 9, "candidatesTokenCount": 2, "totalTokenCount": 11}
        return results, [{"candidates": [candidate], "usageMetadata": usage, "modelVersion": "script"}]


class WireServer(ThreadingHTTPServer):
    """The server. `call(done)` gives the next call, by the number of results that the request holds, or nothing for the end."""

    def __init__(self, call):
        super().__init__(("127.0.0.1", 0), WireHandler)
        self.call, self.results, self.bodies = call, [], []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class WireHandler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, kind, text, status=200):
        body = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        known = self.path.split("?")[0].endswith("/models")
        listed = {"object": "list", "data": [{"id": "script", "object": "model"}]} if known else {}
        self.answer("application/json", json.dumps(listed), 200 if known else 404)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        wire = getattr(Wire, self.path.split("?")[0].rpartition("/")[2].rpartition(":")[2], None)
        if wire is None:
            return self.answer("application/json", "{}")
        self.server.bodies.append(body)
        results, events = wire(body, self.server.call)
        self.server.results = max(self.server.results, results, key=len)
        stream = "".join(f"event: {event.get('type', 'message')}\ndata: {json.dumps(event)}\n\n" for event in events)
        done = "data: [DONE]\n\n" if wire is Wire.completions else ""
        return self.answer("text/event-stream", stream + done)
