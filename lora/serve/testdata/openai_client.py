"""Talks to two servers with OpenAI's own client: one that generates (random weights) and one that always calls a tool."""

import json
import sys

import openai

live_url, scripted_url, key = sys.argv[1:4]
live = openai.OpenAI(base_url=live_url + "/v1", api_key=key, max_retries=0)
scripted = openai.OpenAI(base_url=scripted_url + "/v1", api_key=key, max_retries=0)
hello = [{"role": "user", "content": "Hi"}]

models = [m.id for m in live.models.list()]
assert models == ["base", "planner"], models
assert live.models.retrieve("planner").id == "planner"

# Whole answers: the same seed gives the same text, another one another; choices differ.
ask = dict(model="base", messages=hello, max_tokens=30, seed=1, temperature=1.0)
one = live.chat.completions.create(**ask)
assert one.object == "chat.completion" and one.choices[0].message.role == "assistant"
assert one.usage.completion_tokens == 30 or one.choices[0].finish_reason == "stop", one
assert one.usage.total_tokens == one.usage.prompt_tokens + one.usage.completion_tokens
assert live.chat.completions.create(**ask).choices[0].message.content == one.choices[0].message.content
assert live.chat.completions.create(**{**ask, "seed": 2}).choices[0].message.content != one.choices[0].message.content
several = live.chat.completions.create(**ask, n=3).choices
assert [c.index for c in several] == [0, 1, 2]
assert several[0].message.content == one.choices[0].message.content
assert len({c.message.content for c in several}) == 3
assert live.chat.completions.create(**{**ask, "model": "planner"}).choices[0].message.content != one.choices[0].message.content

# Streams: the same text, and the usage at the end.
text, usage, finish = "", None, None
for event in live.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}):
    if event.choices:
        text += event.choices[0].delta.content or ""
        finish = event.choices[0].finish_reason or finish
    usage = event.usage or usage
assert text == one.choices[0].message.content, (text, one)
assert usage == one.usage and finish == one.choices[0].finish_reason, (usage, finish)

# Log-probabilities.
scored = live.chat.completions.create(**{**ask, "temperature": 0}, logprobs=True, top_logprobs=3).choices[0].logprobs.content
for t in scored:
    assert len(t.top_logprobs) == 3 and t.top_logprobs[0].token == t.token and t.logprob <= 0, t
    assert t.top_logprobs[0].logprob >= t.top_logprobs[1].logprob >= t.top_logprobs[2].logprob
assert scored == live.chat.completions.create(**{**ask, "temperature": 0}, logprobs=True, top_logprobs=3).choices[0].logprobs.content

# Constrained answers.
schema = {"type": "object", "properties": {"tools": {"type": "array", "items": {"enum": ["ndvi", "lst"]}, "minItems": 1, "maxItems": 3}},
          "required": ["tools"], "additionalProperties": False}
for seed in range(5):
    answer = live.chat.completions.create(model="base", messages=hello, max_tokens=60, seed=seed,
                                          response_format={"type": "json_schema", "json_schema": {"name": "plan", "strict": True, "schema": schema}})
    plan = json.loads(answer.choices[0].message.content)
    assert list(plan) == ["tools"] and 1 <= len(plan["tools"]) <= 3 and set(plan["tools"]) <= {"ndvi", "lst"}, plan
    assert answer.choices[0].finish_reason == "stop"

# Tool calls, whole and streamed.
tools = [{"type": "function", "function": {"name": "ndvi", "description": "index", "parameters": {"type": "object", "properties": {"red": {"type": "string"}}}}}]
call = scripted.chat.completions.create(model="base", messages=hello, tools=tools)
assert call.choices[0].finish_reason == "tool_calls", call
calls = call.choices[0].message.tool_calls
assert [c.function.name for c in calls] == ["ndvi"] and json.loads(calls[0].function.arguments) == {"red": "b4.tif"}, calls
arguments, names = "", []
for event in scripted.chat.completions.create(model="base", messages=hello, tools=tools, stream=True):
    for c in event.choices[0].delta.tool_calls or []:
        arguments += c.function.arguments or ""
        names += [c.function.name] if c.function.name else []
assert names == ["ndvi"] and json.loads(arguments) == {"red": "b4.tif"}
with scripted.chat.completions.stream(model="base", messages=hello, tools=tools) as stream:
    final = stream.get_final_completion()
assert json.loads(final.choices[0].message.tool_calls[0].function.arguments) == {"red": "b4.tif"}
history = hello + [call.choices[0].message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": calls[0].id, "content": "0.4"}]
scripted.chat.completions.create(model="base", messages=history, tools=tools)

# Plain completions.
plain = live.completions.create(model="base", prompt="the lake", max_tokens=8, seed=3, n=2, logprobs=1)
assert len(plain.choices) == 2 and plain.usage.completion_tokens <= 16
assert len(plain.choices[0].logprobs.tokens) == len(plain.choices[0].logprobs.token_logprobs)
streamed = "".join(e.choices[0].text for e in live.completions.create(model="base", prompt="the lake", max_tokens=8, seed=3, stream=True))
assert streamed == plain.choices[0].text

# Errors have the classes that the client gives them.
for expected, request in [
    (openai.NotFoundError, {**ask, "model": "gpt-4"}),
    (openai.BadRequestError, {**ask, "messages": []}),
    (openai.BadRequestError, {**ask, "max_tokens": 100000}),
    (openai.BadRequestError, {**ask, "logit_bias": {"5": 10}}),
]:
    try:
        live.chat.completions.create(**request)
    except expected as e:
        assert e.body["message"], e
    else:
        raise AssertionError(f"{request} was served")
try:
    openai.OpenAI(base_url=live_url + "/v1", api_key="wrong", max_retries=0).models.list()
except openai.AuthenticationError:
    pass
else:
    raise AssertionError("a wrong key was taken")
print("ok")
