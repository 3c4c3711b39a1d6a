"""What clients of others ask a server: for the tests, and for programs that run without minidecode."""

import json
import urllib.request

MODEL, KEY, PROMPT = "tiny-gpt2", "secret", "Fellow citizens,"
MESSAGES = [{"role": "user", "content": PROMPT}]
GREEDY = {"model": MODEL, "prompt": PROMPT, "max_tokens": 12, "temperature": 0}
LONG = GREEDY | {"max_tokens": 400, "extra_body": {"min_new_tokens": 400}}
CHAT = {"model": MODEL, "messages": MESSAGES, "max_completion_tokens": 12, "temperature": 0}


def state_of(address):
    request = urllib.request.Request(f"{address}/state", headers={"Authorization": f"Bearer {KEY}"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)
