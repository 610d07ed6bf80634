"""The chat client against a real local server, well-behaved and not."""

import json
import time
from dataclasses import replace

import pytest

from ktc.agent.llm.call_ledger import CallLedger
from ktc.agent.llm.chat import Chat
from ktc.agent.llm.config import LlmConfig
from ktc.agent.llm.replies import LlmError, json_object
from tests.agent.llm.llm_server import Server, completion

KEY = "sk-test-0123456789abcdef"
ASK = [{"role": "user", "content": "hello"}]
SCHEMA = {"type": "object"}
GOOD = (200, {}, completion('{"a": 1}'))


def config(server, **changes):
    defaults = LlmConfig("m", server.url, KEY, timeout_s=2.0, wall_s=20.0, retries=2)
    return replace(defaults, **changes)


def ask(server, **changes):
    chat = Chat(config(server, **changes))
    return chat, chat.ask("planner", ASK, SCHEMA)


def fails(server, code, **changes):
    chat = Chat(config(server, **changes))
    with pytest.raises(LlmError) as e:
        chat.ask("planner", ASK, SCHEMA)
    assert e.value.code == code and e.value.exit_code == 3
    assert KEY not in str(e.value)
    return chat


def test_a_good_answer_is_an_object_and_is_charged():
    with Server(GOOD) as s:
        chat, answer = ask(s, price_in=1e6, price_out=2e6)
    assert answer == {"a": 1}
    assert (chat.ledger.spent.calls, chat.ledger.spent.tokens, chat.ledger.spent.usd) == (1, 120, 140.0)
    sent = s.requests[0]
    assert sent["path"] == "/v1/chat/completions" and sent["headers"]["authorization"] == f"Bearer {KEY}"
    assert sent["body"]["response_format"]["json_schema"]["schema"] == SCHEMA
    assert sent["body"]["max_tokens"] == 4096


@pytest.mark.parametrize(
    "text", ['{"a": 1}', '```json\n{"a": 1}\n```', 'Here you are:\n```\n{"a": 1}\n```\nGood luck.', '  {"a": 1}\n']
)
def test_fences_around_the_object_are_dropped(text):
    assert json_object(text) == {"a": 1}


@pytest.mark.parametrize(
    "text",
    [
        'I would do this: {"a": 1} since it is best.',
        '<think>{"a": 2} or {"a": 3}?</think>{"a": 1}',
        'thoughts that began before the reply </think> {"a": 1}',
        '<think>```json\n{"a": 2}\n```</think>\n```json\n{"a": 1}\n```',
        'A {brace} and then {"a": 1}',
    ],
)
def test_the_object_is_found_in_prose_and_after_thoughts(text):
    assert json_object(text) == {"a": 1}


@pytest.mark.parametrize("text", ['{"a": 1} or {"b": 2}', '<think>{"a": 1}', '[{"a": 1}]'])
def test_what_may_not_be_the_answer_is_none(text):
    with pytest.raises(LlmError):
        json_object(text)


def test_an_unreadable_answer_is_asked_for_again_and_never_recorded_as_good(tmp_path):
    record = tmp_path / "calls.jsonl"
    with Server((200, {}, completion("well...")), GOOD) as s:
        chat, answer = ask(s, record=record)
    assert answer == {"a": 1} and len(s.requests) == 2
    assert [m["role"] for m in s.requests[1]["body"]["messages"]] == ["user", "assistant", "user"]
    assert [json.loads(x)["status"] for x in record.read_text().splitlines()] == ["E-LLM-REPLY", "ok"]
    assert (chat.ledger.spent.calls, chat.ledger.spent.tokens) == (2, 240), "both are charged"
    replayed = Chat(LlmConfig("m", replay=record)).ask("planner", ASK, SCHEMA)
    assert replayed == {"a": 1}, "by the fingerprint of the first question"
    with Server((200, {}, completion("well..."))) as s:
        fails(s, "E-LLM-REPLY")
    assert len(s.requests) == 2


def test_refused_parameters_are_left_out_and_stay_left_out():
    def picky(body):
        for name in ("max_tokens", "temperature"):
            if name in body:
                return 400, {}, {"error": {"message": f"Unsupported parameter: '{name}'"}}
        return GOOD

    with Server(picky) as s:
        chat, answer = ask(s)
        chat.ask("planner", [{"role": "user", "content": "more"}], SCHEMA)
    assert answer == {"a": 1} and len(s.requests) == 4
    assert s.requests[-1]["body"]["max_completion_tokens"] == 4096


def test_the_time_limit_is_of_calls_not_of_what_happens_between_them():
    with Server(GOOD) as s:
        chat = Chat(config(s, wall_s=0.4))
        chat.ask("planner", ASK, SCHEMA)
        time.sleep(0.5)  # a measurement
        assert chat.ask("planner", [{"role": "user", "content": "more"}], SCHEMA) == {"a": 1}


def test_limits_come_from_the_environment():
    env = {"KTC_LLM_BASE_URL": "http://x", "KTC_LLM_MAX_CALLS": "3", "KTC_LLM_MAX_TOKENS": "500"}
    found = LlmConfig.from_env({**env, "KTC_LLM_MAX_SECONDS": "7.5"})
    assert found is not None and (found.max_calls, found.total_tokens, found.wall_s) == (3, 500, 7.5)
    with pytest.raises(LlmError, match="KTC_LLM_MAX_CALLS"):
        LlmConfig.from_env({**env, "KTC_LLM_MAX_CALLS": "many"})


@pytest.mark.parametrize("text", ["", "no", "[1]", '{"a": 1', "[" * 100_000, '{"a": 1} {"b": 2}'])
def test_what_is_not_an_object_is_refused(text):
    with pytest.raises(LlmError) as e:
        json_object(text)
    assert e.value.code == "E-LLM-REPLY"


def test_event_streams_are_put_together():
    parts = [{"choices": [{"delta": {"content": c}}]} for c in ('{"a"', ": 1}")]
    body = b"".join(b"data: " + json.dumps(p).encode() + b"\n\n" for p in parts) + b"data: [DONE]\n\n"
    with Server((200, {"Content-Type": "text/event-stream"}, body)) as s:
        assert ask(s)[1] == {"a": 1}


def test_rate_limit_waits_as_long_as_asked():
    with Server((429, {"Retry-After": "0.4"}, {"error": {"message": "slow down"}}), GOOD) as s:
        began = time.monotonic()
        chat, answer = ask(s)
    assert answer == {"a": 1} and chat.ledger.spent.calls == 2
    assert time.monotonic() - began >= 0.4


def test_a_rate_limit_longer_than_the_budget_of_time_ends_at_once():
    with Server((429, {"Retry-After": "3600"}, {"error": {"message": "slow down"}})) as s:
        began = time.monotonic()
        fails(s, "E-LLM-RATE")
    assert time.monotonic() - began < 20 and len(s.requests) == 1


def test_server_errors_are_retried_and_then_reported():
    with Server((500, {}, {"error": {"message": "oops"}})) as s:
        fails(s, "E-LLM-SERVER", retries=1)
        assert len(s.requests) == 2
    with Server((503, {}, b"<html>busy</html>"), GOOD) as s:
        assert ask(s)[1] == {"a": 1}


def test_a_wrong_key_is_not_retried_and_not_repeated():
    with Server((401, {}, {"error": {"message": f"Incorrect API key provided: {KEY}"}})) as s:
        fails(s, "E-LLM-AUTH")
        assert len(s.requests) == 1


@pytest.mark.parametrize("behaviour", ["stall", "drip"])
def test_silence_and_dripping_time_out(behaviour):
    with Server(behaviour) as s:
        began = time.monotonic()
        fails(s, "E-LLM-TIMEOUT", timeout_s=0.4, retries=0)
    assert time.monotonic() - began < 20


def test_endless_tokens_are_cut():
    with Server("endless") as s:
        fails(s, "E-LLM-REPLY", timeout_s=10, retries=0)


def test_a_connection_that_breaks_is_reported():
    with Server("cut") as s:
        fails(s, "E-LLM-CONNECT", retries=0)
    with Server(GOOD) as gone:
        url = gone.url
    with pytest.raises(LlmError) as e:
        Chat(LlmConfig("m", url, retries=0)).ask("planner", ASK, SCHEMA)
    assert e.value.code == "E-LLM-CONNECT"
    assert f"cannot reach 127.0.0.1:{url.rpartition(':')[2].partition('/')[0]}" in str(e.value)


@pytest.mark.parametrize(
    "body",
    [
        completion("", choices=[]),
        completion(None),
        {"choices": "none"},
        [1, 2],
        b"not json",
        b"\xff\xfe\x00",
        {"choices": [{"message": None}]},
    ],
    ids=["no-choices", "null-content", "choices-text", "list", "text", "binary", "null-message"],
)
def test_malformed_completions_are_one_error(body):
    with Server((200, {}, body)) as s:
        fails(s, "E-LLM-REPLY", retries=0)


def test_an_endpoint_without_json_schema_is_asked_in_another_way():
    def picky(request):
        style = request.get("response_format", {}).get("type")
        if style is not None:
            return 400, {}, {"error": {"message": f"response_format {style} is not supported"}}
        return GOOD

    with Server(picky) as s:
        chat, answer = ask(s)
        assert answer == {"a": 1} and len(s.requests) == 3
        chat.ask("planner", ASK, SCHEMA)
        assert len(s.requests) == 4  # remembered


@pytest.mark.parametrize("limit", [{"max_calls": 2}, {"total_tokens": 200}, {"max_usd": 1.0, "price_in": 5000.0}])
def test_budgets_end_the_conversation(limit):
    with Server(GOOD) as s:
        chat = Chat(config(s, **limit))
        with pytest.raises(LlmError) as e:
            for _ in range(5):
                chat.ask("planner", ASK, SCHEMA)
    assert e.value.code == "E-LLM-BUDGET" and 1 <= len(s.requests) <= 3


def test_missing_usage_is_estimated():
    with Server((200, {}, completion('{"a": 1}', usage=False))) as s:
        chat, _ = ask(s)
    assert chat.ledger.spent.tokens == len("hello") // 4 + 1 + len('{"a": 1}') // 4 + 1


def test_the_ledger_holds_no_key_and_replays(tmp_path):
    path = tmp_path / "calls.jsonl"
    leaky = (200, {}, completion(json.dumps({"a": f"the key is {KEY}, Bearer abcdefghijk"})))
    with Server((500, {}, {"error": {"message": KEY}}), leaky) as s:
        chat = Chat(config(s, record=path), CallLedger(path, secrets=(KEY,)))
        chat.ask("planner", ASK, SCHEMA)
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    text = path.read_text()
    assert KEY not in text and "abcdefghijk" not in text
    assert [r["status"] for r in rows] == ["E-LLM-SERVER", "ok"]
    again = Chat(LlmConfig("m", replay=path))
    assert again.ask("planner", ASK, SCHEMA) == {"a": "the key is [redacted], [redacted]"}
    with pytest.raises(LlmError) as e:
        again.ask("planner", [{"role": "user", "content": "something else"}], SCHEMA)
    assert e.value.code == "E-LLM-REPLAY"


def test_a_torn_line_of_a_record_is_skipped(tmp_path):
    path = tmp_path / "calls.jsonl"
    with Server(GOOD) as s:
        Chat(config(s, record=path)).ask("planner", ASK, SCHEMA)
    path.write_text(path.read_text() + '{"status": "ok", "key": "ab')
    chat = Chat(LlmConfig("m", replay=path))
    assert chat.ask("planner", ASK, SCHEMA) == {"a": 1}
    assert str(chat.ledger.spent) == "1 answer from the record"


def test_configuration_from_the_environment(tmp_path):
    assert LlmConfig.from_env({}) is None
    env = {"OPENAI_API_KEY": KEY, "KTC_LLM_MODEL": "big", "KTC_LLM_REPLAY": str(tmp_path / "r")}
    with pytest.raises(LlmError, match="there is no file") as e:
        LlmConfig.from_env(env)
    assert e.value.code == "E-LLM-CONFIG" and "llm-calls.jsonl" in str(e.value.hint)
    (tmp_path / "r").write_text("")
    c = LlmConfig.from_env({**env, "KTC_LLM_PRICE_IN": "2.5"})
    assert (c.model, c.api_key, c.replay, c.price_in) == ("big", KEY, tmp_path / "r", 2.5)
    assert KEY not in repr(c)
    with pytest.raises(LlmError, match="KTC_LLM_PRICE_OUT"):
        LlmConfig.from_env({**env, "KTC_LLM_PRICE_OUT": "cheap"})
