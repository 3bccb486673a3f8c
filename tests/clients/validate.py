"""Holds recorded requests to the types of the official clients: every field must be one that they know.

Reads a JSON file with a list of {"wire", "body"}. Prints a line for each wire and ends with 0 where all is right. So
that a pass means something, each request is also tried in wrong forms, all of which must be refused.
"""

import copy
import json
import sys
from collections.abc import Iterator

import pydantic
from pydantic import ConfigDict, TypeAdapter


def strict(typed_dict):
    """Unknown fields are errors, in nested objects too: a list takes a configuration that all of them inherit."""
    return TypeAdapter(list[typed_dict], config=ConfigDict(extra="forbid"))


def drained(value):
    """The types say `Iterable`, which is checked while it is read."""
    if isinstance(value, dict):
        return {key: drained(inner) for key, inner in value.items()}
    if isinstance(value, (list, Iterator)) or type(value).__name__ == "ValidatorIterator":
        return [drained(inner) for inner in value]
    return value


def messages():
    from anthropic import types
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    request = strict(MessageCreateParamsStreaming)
    # A message also takes the blocks of an answer, which know no unknown field; so each block is held to its own type.
    blocks = {
        "text": strict(types.TextBlockParam),
        "thinking": strict(types.ThinkingBlockParam),
        "tool_use": strict(types.ToolUseBlockParam),
        "tool_result": strict(types.ToolResultBlockParam),
    }

    def validate(body):
        drained(request.validate_python([body]))
        for message in body["messages"]:
            for block in message["content"]:
                if block.get("type") not in blocks:
                    raise ValueError(f"the block {block} is of no type that we send")
                drained(blocks[block["type"]].validate_python([block]))

    return validate


def chat():
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

    adapter = strict(CompletionCreateParamsStreaming)
    return lambda body: drained(adapter.validate_python([body]))


def responses():
    from openai.types import responses as types
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
    from openai.types.responses.response_input_param import FunctionCallOutput

    request = strict(ResponseCreateParamsStreaming)
    # The list of items takes many types; so each item is held to its own.
    items = {
        "reasoning": strict(types.ResponseReasoningItemParam),
        "function_call": strict(types.ResponseFunctionToolCallParam),
        "function_call_output": strict(FunctionCallOutput),
    }
    messages = {
        "user": strict(types.EasyInputMessageParam),
        "assistant": strict(types.ResponseOutputMessageParam),
    }

    def validate(body):
        drained(request.validate_python([body]))
        for item in body["input"]:
            adapter = items.get(item["type"]) or messages[item["role"]]
            drained(adapter.validate_python([item]))

    return validate


def generate_content():
    from google.genai import types

    class Request(pydantic.BaseModel):
        """What the client sends: it has parts of this as types of its own, but not the whole."""

        model_config = ConfigDict(extra="forbid")
        contents: list[types.Content]
        systemInstruction: types.Content | None = None
        tools: list[types.Tool] | None = None
        toolConfig: types.ToolConfig | None = None
        generationConfig: types.GenerationConfig | None = None

    def validate(body):
        # In JSON, fields have one spelling; the models also take the one of Python.
        for key in keys(body):
            if "_" in key:
                raise ValueError(f"`{key}` is not a field of the wire")
        Request.model_validate(body)

    def keys(value):
        if isinstance(value, dict):
            for key, inner in value.items():
                # What a tool calls its arguments is its own affair.
                if key not in ("properties", "required", "args", "response"):
                    yield key
                    yield from keys(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from keys(inner)

    return validate


WIRES = {"messages": messages, "chat": chat, "responses": responses, "generate-content": generate_content}

# What is free to a tool, and where a new field is therefore no mistake.
FREE = ("input", "input_schema", "parameters", "args", "response")


def wrong_forms(body):
    """The request with one mistake each: an unknown field in every object."""

    def places(value, path):
        if isinstance(value, dict):
            yield path
            for key, inner in value.items():
                if key not in FREE:
                    yield from places(inner, path + [key])
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                yield from places(inner, path + [index])

    for path in places(body, []):
        wrong = copy.deepcopy(body)
        place = wrong
        for key in path:
            place = place[key]
        place["no_such_field"] = 1
        yield path, wrong


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        recorded = json.load(file)
    validators, counts, mistakes = {}, {}, []
    for request in recorded:
        wire, body = request["wire"], request["body"]
        if wire not in validators:
            validators[wire] = WIRES[wire]()
        validate = validators[wire]
        try:
            validate(body)
        except (pydantic.ValidationError, ValueError) as error:
            mistakes.append(f"{wire}: {error}")
            continue
        wrong = 0
        for path, form in wrong_forms(body):
            try:
                validate(form)
                mistakes.append(f"{wire}: an unknown field at {path} was taken")
            except (pydantic.ValidationError, ValueError):
                wrong += 1
        requests, refused = counts.get(wire, (0, 0))
        counts[wire] = (requests + 1, refused + wrong)
    for mistake in mistakes:
        print(mistake, file=sys.stderr)
    for wire, (requests, refused) in counts.items():
        print(f"{wire}: {requests} requests are right, {refused} wrong forms were refused")
    return 1 if mistakes or any(refused == 0 for _, refused in counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
