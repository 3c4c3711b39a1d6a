"""Conversations: templates in their sandbox, and what `chat` and `generate --chat` make of them."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import signal
import subprocess
import sys

import pytest
from toy_folder import write_folder, write_json

import minidecode as md
from minidecode import InputError, OptionError
from minidecode.commands.chat import Conversation
from minidecode.files import chat as chat_files
from minidecode.files.chat import ChatTemplate

chat_command = importlib.import_module("minidecode.commands.chat")
jinja2 = pytest.importorskip("jinja2", reason="needs the extra chat")

TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}"
)
HI = [{"role": "user", "content": "hi"}]


@pytest.fixture
def folder(tmp_path):
    made = write_folder(tmp_path / "toy", n_positions=64)
    (made / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    return made


# --- templates ---


@pytest.mark.parametrize(
    ("template", "text"),
    [
        (TEMPLATE, "user: hi\na:"),
        ("{{ bos_token }}{{ messages[0]['content'] | trim }}{{ eos_token }}", "<s>hi"),
        ("{{ messages | tojson }}", '[{"role": "user", "content": "hi"}]'),
        ("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("{% if true %}\n  a\n  {% endif %}\nb", "  a\nb"),  # blocks take their line with them
        ("{{ strftime_now('%Y') | length }}", "4"),
        ("{% generation %}{{ messages[0].content }}!{% endgeneration %}", "hi!"),
        ("{%- for m in messages %}\n{%- generation %}\n{{- m.content }}\n{%- endgeneration %}\n{%- endfor %}", "hi"),
        ("{% generation %}{% set x = 'a' %}{{ x }}{% endgeneration %}{{ x }}", "a"),  # what is set inside stays there
        ("{% if tools is not none or documents is not none %}with{% endif %}-", "-"),
        ("{% if tools == none %}plain{% endif %}", "plain"),
        ("{% if tools is defined and tools is not none and tools | length > 0 %}with{% endif %}-", "-"),
        ("{% set n = namespace(a=1) %}{% generation %}{% set n.a = 2 %}{% endgeneration %}{{ n.a }}", "2"),
        ("{% for i in range(4) %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "023"),
        ("{% if tools is defined %}none{% endif %}-", "none-"),
    ],
)
def test_a_template_makes_a_text(template, text):
    assert ChatTemplate(template, {"bos_token": "<s>"}).render(HI) == text


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ raise_exception('roles must\nalternate') }}", "TemplateError: roles must alternate"),
        ("{% if %}", "TemplateSyntaxError"),
        ("{% set n = namespace(_a=1) %}", "SecurityError"),
        ("{% generation %}", "TemplateSyntaxError"),
        ("{{ messages[0].nothing.more }}", "UndefinedError"),
        ("{{ messages.append(1) }}", "SecurityError"),
        ("{{ messages.__class__.__mro__ }}", "SecurityError"),
        ("{{ cycler.__init__.__globals__.os.popen('id') }}", "SecurityError"),
        ("{% include '/etc/passwd' %}", "no loader"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{{ raise_exception('\x1b[2J\x07gone') }}", "TemplateError: [2J gone"),  # no control characters
    ],
)
def test_a_template_that_raises_is_one_line(template, reason):
    with pytest.raises(InputError) as caught:
        ChatTemplate(template, {}).render(HI)
    assert str(caught.value).startswith("the chat template refuses this conversation: ") and reason in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "template",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% set n = 10 ** 9 %}{% set m = 7 ** n %}",  # one number, without a step of Python between
    ],
)
def test_a_template_without_an_end_is_ended(template, monkeypatch):
    """By its process, which counts the processor's time; not by us, who would wait much longer."""
    ended, run = [], subprocess.run
    monkeypatch.setattr(chat_files.subprocess, "run", lambda *a, **k: ended.append(run(*a, **k)) or ended[-1])
    with pytest.raises(InputError, match=r"^the chat template takes more than 1 s"):
        ChatTemplate(template, {}).render(HI)
    assert [done.returncode in (chat_files.OUT_OF_TIME, -signal.SIGPROF) for done in ended] == [True]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems do not count a process's memory")
@pytest.mark.parametrize(
    "template", ["{{ 'x' * 300000000 }}", "{% for a in range(9999) %}{{ 'x' * 99999 }}{% endfor %}"]
)
def test_a_template_that_takes_much_memory_is_ended(template):
    with pytest.raises(InputError, match=r"^the chat template takes more than 256 MB: "):
        ChatTemplate(template, {}).render(HI)


def test_a_template_that_makes_a_book_is_refused():
    """Before a tokenizer sees it, whose memory has no limit."""
    with pytest.raises(
        InputError, match=r"makes 20,000,000 characters of this conversation, and 16,777,216 are allowed"
    ):
        ChatTemplate("{{ 'x' * 20000000 }}", {}).render(HI)


def test_a_part_of_a_message_that_is_null_is_no_part():
    template = ChatTemplate("{{ messages[0].keys() | join(',') }}", {})
    assert template.render([HI[0] | {"name": None, "tool_calls": None, "date": "today"}]) == "role,content,date"


def test_the_limits_leave_room_for_long_conversations():
    long = [{"role": "user", "content": "word " * 100_000}] * 4
    assert len(ChatTemplate(TEMPLATE, {}).render(long)) > 2_000_000


@pytest.mark.parametrize("messages", ["hi", [], ["hi"], [{"role": "user"}], [{"role": "user", "content": 5}]])
def test_what_is_no_conversation(messages):
    with pytest.raises(InputError, match=r"conversation is|message 1 is"):
        ChatTemplate(TEMPLATE, {}).render(messages)


def test_without_jinja_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(InputError, match=r"^a chat template needs the package jinja2: pip install '?jinja2"):
        ChatTemplate(TEMPLATE, {}).render(HI)


def test_where_a_template_is_looked_for(tmp_path):
    assert ChatTemplate.from_folder(tmp_path) is None
    write_json(tmp_path / "tokenizer_config.json", {"chat_template": "a", "bos_token": {"content": "<s>"}})
    found = ChatTemplate.from_folder(tmp_path)
    assert (found.text, found.tokens) == ("a", {"bos_token": "<s>"})
    named = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    write_json(tmp_path / "tokenizer_config.json", {"chat_template": named, "eos_token": "</s>"})
    assert ChatTemplate.from_folder(tmp_path).text == "d"
    (tmp_path / "chat_template.jinja").write_text("{{ 'é' }}", encoding="utf-8")
    assert ChatTemplate.from_folder(tmp_path).render(HI) == "é"


# --- in Python ---


def test_chat_continues_what_the_template_says(folder):
    model = md.load(folder)
    out = model.chat(HI, max_new_tokens=5)
    assert out.token_ids[0].tolist() == model.generate("user: hi\na:", max_new_tokens=5).token_ids[0].tolist()


def test_a_template_alone_says_where_special_tokens_stand(folder):
    from tokenizers import Tokenizer, processors

    backend = Tokenizer.from_file(str(folder / "tokenizer.json"))
    special = [("<|endoftext|>", 0)]
    backend.post_processor = processors.TemplateProcessing("<|endoftext|> $A", special_tokens=special)
    backend.save(str(folder / "tokenizer.json"))
    tokenizer = md.load(folder).tokenizer
    assert tokenizer.encode("hi")[0] == 0
    assert tokenizer.encode_chat(HI)[0] != 0
    assert tokenizer.decode(tokenizer.encode_chat(HI), keep_special=True) == "user: hi\na:"


def test_a_model_without_a_template_says_so(tiny_folder):
    with pytest.raises(InputError, match=r"^this model has no chat template: "):
        md.load(tiny_folder()).chat(HI)


def test_a_template_runs_only_when_asked(folder):
    (folder / "chat_template.jinja").write_text("{{ raise_exception('no') }}", encoding="utf-8")
    assert md.load(folder).generate("hi", max_new_tokens=2).texts


def test_a_conversation_beyond_the_context_is_refused(folder):
    model = md.load(folder)
    with pytest.raises(InputError, match=r"^the conversation has \d+ tokens and the model's context holds 64"):
        model.chat([{"role": "user", "content": "q" * 80}])
    with pytest.raises(InputError, match=r"^the conversation has \d+ tokens, and 60 new ones go beyond the context"):
        model.chat(HI, max_new_tokens=60)
    with pytest.raises(OptionError, match="chat takes no streamer and no truncate"):
        model.chat(HI, truncate=True)


# --- on the command line ---


def test_generate_answers_prompts_by_the_template(folder, cli, tmp_path):
    model = md.load(folder)
    wanted = [model.chat([{"role": "user", "content": text}], max_new_tokens=4).texts[0] for text in ("hi", "the")]
    one = cli("generate", "-m", folder, "--chat", "hi", "--max-new-tokens", 4, "-q")
    assert (one.code, one.out) == (0, wanted[0] + "\n"), one.err
    (tmp_path / "prompts.txt").write_text("hi\nthe\n", encoding="utf-8")
    many = cli(
        "generate", "-m", folder, "--chat", "-i", tmp_path / "prompts.txt", "--json", "--max-new-tokens", 4, "-q"
    )
    assert [json.loads(line)["hypotheses"][0]["text"] for line in many.out.splitlines()] == wanted, many.err


def test_cutting_a_conversation_is_refused(folder, cli):
    ran = cli("generate", "-m", folder, "--chat", "hi", "--truncate")
    assert ran.code == 1 and "truncate would cut off the beginning of a conversation" in ran.err
    with pytest.raises(OptionError, match="truncate would cut"):
        md.generate_lines(md.load(folder), ["hi"], chat=True, truncate=True)


def test_a_conversation_on_standard_input(folder, cli):
    model, limit = md.load(folder), 4
    messages, wanted = [{"role": "system", "content": "S"}], ""
    for text in ("hi", "the"):
        messages.append({"role": "user", "content": text})
        messages.append({"role": "assistant", "content": model.chat(messages, max_new_tokens=limit).texts[0]})
        wanted += messages[-1]["content"] + "\n"
    ran = cli("chat", "-m", folder, "--system", "S", "--max-new-tokens", limit, stdin=b"hi\n\nthe\n")
    assert (ran.code, ran.out, ran.err) == (0, wanted, "")


def test_the_oldest_messages_are_left_out_with_a_line(folder, cli):
    said = b"q" * 20 + b"\n" + b"w" * 20 + b"\n" + b"v" * 20 + b"\n"
    ran = cli("chat", "-m", folder, "--max-new-tokens", 8, "--ignore-eos", stdin=said)
    line = "minidecode: the context of 64 tokens is full: the 2 oldest messages are left out\n"
    assert ran.code == 0 and ran.err and ran.err == line * ran.err.count("\n"), ran.err
    model = md.load(folder)
    last = model.chat([{"role": "user", "content": "v" * 20}], max_new_tokens=8, eos_token_id=None).texts[0]
    assert ran.out.endswith(last + "\n")


@pytest.mark.parametrize(
    ("arguments", "stdin", "reason"),
    [
        ([], b"q" * 80, "the conversation has "),
        ([], b"\xff\n", "the input is not UTF-8: byte 0xff"),
        (["--truncate"], b"", "truncate has no effect in a chat"),
        (["--num-beams", "2", "--num-return-sequences", "2"], b"", "--num-return-sequences must be 1"),
    ],
)
def test_what_a_chat_refuses_is_one_line(folder, cli, arguments, stdin, reason):
    ran = cli("chat", "-m", folder, *arguments, stdin=stdin)
    assert ran.code == 1 and reason in ran.err and ran.err.count("\n") == 1


ALTERNATE = (
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate') }}"
    "{% endif %}{% if 'bad' in m['content'] %}{{ raise_exception('bad') }}{% endif %}{{ m['content'] }}{% endfor %}"
)


@pytest.mark.parametrize(("text", "reason"), [("bad", "TemplateError: bad"), ("long " * 100, "context")])
def test_a_message_that_fails_is_taken_back(folder, text, reason):
    """Or the template would see two messages of the user in a row, and refuse each that follows."""
    (folder / "chat_template.jinja").write_text(ALTERNATE, encoding="utf-8")
    conversation = Conversation(md.load(folder), [], {"max_new_tokens": 4})
    conversation.answer("a", io.StringIO())
    with pytest.raises(InputError, match=reason):
        conversation.answer(text, io.StringIO())
    assert not conversation.messages or conversation.messages[-1]["role"] == "assistant"
    conversation.answer("b", io.StringIO())
    assert [m["role"] for m in conversation.messages[-2:]] == ["user", "assistant"]


def test_a_bar_is_there_while_the_model_loads(folder, cli, monkeypatch):
    """On a terminal; until then nothing would be seen for seconds."""
    shown = []

    @contextlib.contextmanager
    def bar(label, quiet):
        shown.append(f"{label} begins" if not quiet else "nothing")
        yield
        shown.append("and ends")

    monkeypatch.setattr(chat_command, "progress_bar", bar)
    monkeypatch.setattr(chat_command, "_answer_each_line", lambda conversation: shown.append("a conversation"))
    assert cli("chat", "-m", folder, stdin=b"").code == 0
    assert shown == [f"loading {folder} begins", "and ends", "a conversation"]


def test_chat_with_a_model_that_has_no_template(tiny_folder, cli):
    ran = cli("chat", "-m", tiny_folder(), stdin=b"hi\n")
    assert (ran.code, ran.out) == (1, "") and "has no chat template" in ran.err and ran.err.count("\n") == 1
