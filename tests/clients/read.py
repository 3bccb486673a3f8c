"""Reads answers of a scripted model server with the official clients, and prints what they understood, as JSON.

    read.py WIRE BASE_URL STREAMS

Asks STREAMS times for a stream, then once for an answer at once, then for the model list. The clients check
every answer against their types.
"""

import json
import sys

KEY = "not-a-key"
ASK = "Look around."


def messages(url):
    import anthropic

    client = anthropic.Anthropic(api_key=KEY, base_url=url, max_retries=0, _strict_response_validation=True)
    tool = {"name": "read_file", "description": "reads", "input_schema": {"type": "object", "properties": {}}}
    question = {
        "model": "tiny",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": ASK}],
        "tools": [tool],
    }

    def understood(message):
        usage, blocks = message.usage, message.content
        return {
            "text": "".join(block.text for block in blocks if block.type == "text"),
            "reasoning": "".join(block.thinking for block in blocks if block.type == "thinking"),
            "signed": [bool(block.signature) for block in blocks if block.type == "thinking"],
            "calls": [[block.name, block.input] for block in blocks if block.type == "tool_use"],
            "ids": len({block.id for block in blocks if block.type == "tool_use"}),
            "finish": message.stop_reason,
            "usage": [
                usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens,
                usage.cache_read_input_tokens,
                usage.output_tokens,
            ],
        }

    def stream():
        with client.messages.stream(**question) as stream:
            return understood(stream.get_final_message())

    def at_once():
        return understood(client.messages.create(**question))

    return stream, at_once, lambda: [model.id for model in client.models.list()], anthropic.APIStatusError


def chat(url):
    import openai

    client = openai.OpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0, _strict_response_validation=True)
    tool = {"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}
    question = {"model": "tiny", "messages": [{"role": "user", "content": ASK}], "tools": [tool]}

    def understood(completion, reasoning):
        choice = completion.choices[0]
        calls = choice.message.tool_calls or []
        usage = completion.usage
        return {
            "text": choice.message.content or "",
            "reasoning": reasoning,
            "calls": [[call.function.name, json.loads(call.function.arguments)] for call in calls],
            "ids": len({call.id for call in calls}),
            "finish": choice.finish_reason,
            "usage": [usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens, usage.completion_tokens],
        }

    def thought(message):
        # The vendor's own type does not know this field of others, and keeps it.
        return (message.model_extra or {}).get("reasoning_content", "")

    def stream():
        reasoning = ""
        with client.chat.completions.stream(**question, stream_options={"include_usage": True}) as stream:
            for event in stream:
                if event.type == "chunk":
                    reasoning += "".join(thought(choice.delta) for choice in event.chunk.choices)
            try:
                return understood(stream.get_final_completion(), reasoning)
            except openai.LengthFinishReasonError as cut_off:
                return understood(cut_off.completion, reasoning)

    def at_once():
        completion = client.chat.completions.create(**question)
        return understood(completion, thought(completion.choices[0].message))

    return stream, at_once, lambda: [model.id for model in client.models.list()], openai.APIError


def responses(url):
    import openai

    client = openai.OpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0, _strict_response_validation=True)
    tool = {"type": "function", "name": "read_file", "parameters": {"type": "object"}, "strict": False}
    question = {"model": "tiny", "input": ASK, "tools": [tool], "store": False}

    def understood(response):
        calls = [item for item in response.output if item.type == "function_call"]
        thoughts = [item for item in response.output if item.type == "reasoning"]
        usage = response.usage
        return {
            "text": response.output_text,
            "reasoning": "".join(part.text for item in thoughts for part in item.summary),
            "signed": [bool(item.encrypted_content) for item in thoughts],
            "calls": [[call.name, json.loads(call.arguments)] for call in calls],
            "ids": len({call.call_id for call in calls}),
            "finish": response.incomplete_details.reason if response.incomplete_details else response.status,
            "usage": [usage.input_tokens, usage.input_tokens_details.cached_tokens, usage.output_tokens],
        }

    def stream():
        for event in client.responses.create(**question, stream=True):
            if event.type == "error":
                return {"error": event.type, "status": event.code, "message": event.message}
            if event.type in ("response.completed", "response.incomplete"):
                last = event.response
        return understood(last)

    def at_once():
        return understood(client.responses.create(**question))

    return stream, at_once, lambda: [model.id for model in client.models.list()], openai.APIError


def generate_content(url):
    from google import genai
    from google.genai import errors, types

    client = genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=url, api_version="v1beta"))
    function = types.FunctionDeclaration(name="read_file", description="reads")
    # The client must not run anything by itself.
    by_hand = types.AutomaticFunctionCallingConfig(disable=True)
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[function])], automatic_function_calling=by_hand
    )
    question = {"model": "tiny", "contents": ASK, "config": config}

    def understood(responses):
        parts = [part for response in responses for part in response.candidates[0].content.parts]
        usage = responses[-1].usage_metadata
        calls = [part for part in parts if part.function_call]
        return {
            "text": "".join(part.text for part in parts if part.text and not part.thought),
            "reasoning": "".join(part.text for part in parts if part.text and part.thought),
            "signed": [bool(part.thought_signature) for part in calls],
            "calls": [[part.function_call.name, part.function_call.args] for part in calls],
            "finish": responses[-1].candidates[0].finish_reason.value,
            "usage": [
                usage.prompt_token_count,
                usage.cached_content_token_count or 0,
                usage.candidates_token_count,
            ],
        }

    def stream():
        return understood(list(client.models.generate_content_stream(**question)))

    def at_once():
        return understood([client.models.generate_content(**question)])

    return stream, at_once, lambda: [model.name for model in client.models.list()], errors.APIError


WIRES = {"messages": messages, "chat": chat, "responses": responses, "generate-content": generate_content}


def main():
    wire, url, streams = sys.argv[1], sys.argv[2], int(sys.argv[3])
    stream, at_once, models, failure = WIRES[wire](url)

    def tried(action):
        try:
            return action()
        except failure as error:
            status = getattr(error, "status_code", None) or getattr(error, "code", None)
            return {"error": type(error).__name__, "status": status, "message": str(error)}

    answers = [tried(stream) for _ in range(streams)]
    print(json.dumps({"streams": answers, "at_once": tried(at_once), "models": models()}))


if __name__ == "__main__":
    main()
