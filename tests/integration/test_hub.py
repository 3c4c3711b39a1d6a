"""Models of the hub: the real client against a small hub on this machine. No request leaves the machine.

The client reads its address and its cache's place when it is imported, so it runs in processes of its own.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hub_server import HubServer
from torch_writer import written
from toy_folder import CONFIG, write_bpe, write_folder, write_shards

import minidecode as md
from minidecode.files.folder import find_folder
from minidecode.files.hub import Listing, _fetch_file, _perhaps_unfetched, looks_like_id

# Copies in other formats, precisions and frameworks, and what else lies in repositories. None of it is ever needed.
OTHERS = [
    "README.md", ".gitattributes", "tf_model.h5", "flax_model.msgpack", "rust_model.ot", "onnx/decoder_model.onnx",
    "model.fp16.safetensors", "pytorch_model.fp16.bin", "coreml/weights.bin", "64.tflite", "training_args.bin",
]  # fmt: skip
NEEDED = ["config.json", "model.safetensors", "tokenizer.json"]


def fingerprint(model) -> list:
    """Whether two processes have loaded the same: settings, weights, and what they say."""
    import zlib

    weights = [zlib.crc32(tensor.tobytes()) for tensor in model.tensors.values()]
    return [repr(model.config), weights, model.generate("the", max_new_tokens=3).texts]


CLIENT = f"""
import json, sys, time
import minidecode as md
from minidecode.files.folder import find_folder

{inspect.getsource(fingerprint)}

naps = []
time.sleep = naps.append

for line in sys.stdin:
    what, name, options = json.loads(line)
    naps.clear()
    try:
        if what == "load":
            answer = dict(model=fingerprint(md.load(name, **options)))
        else:
            answer = dict(folder=str(find_folder(name, **options)))
    except md.MinidecodeError as error:
        answer = dict(error=str(error))
    print(json.dumps(answer | dict(naps=len(naps))), flush=True)
"""


def environment(url: str, home: Path, **more: str) -> dict[str, str]:
    """This process's, without what a user may have set for the hub; a proxy would hide the server."""
    inherited = {k: v for k, v in os.environ.items() if not re.match(r"HF_|HUGGING_FACE|.*_proxy$", k, re.IGNORECASE)}
    return inherited | {"HF_ENDPOINT": url, "HF_HOME": str(home), **more}


class Client:
    """A process with the real client, that loads what it is told to."""

    def __init__(self, url: str, home: Path, **more: str):
        home.mkdir(exist_ok=True)
        self.log = open(home / "stderr", "w+")  # noqa: SIM115 (closed with the process)
        self.process = subprocess.Popen(
            [sys.executable, "-c", CLIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
            env=environment(url, home, **more),
        )  # fmt: skip

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_) -> None:
        self.process.communicate()
        self.log.seek(0)
        said = self.log.read()
        self.log.close()
        assert said == "", "the client's own notes should not reach the screen"

    def ask(self, what: str, name: str, **options) -> dict:
        self.process.stdin.write(json.dumps([what, name, options]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def load(self, name: str, **options) -> list:
        """The fingerprint of a model."""
        answer = self.ask("load", name, **options)
        assert "model" in answer, answer
        return answer["model"]

    def files(self, name: str, **options) -> list[str]:
        """The names of the files that the model's folder has after this."""
        answer = self.ask("find", name, **options)
        assert "folder" in answer, answer
        return sorted(os.listdir(answer["folder"]))

    def refusal(self, name: str, **options) -> str:
        error = self.ask("load", name, **options)["error"]
        assert "\n" not in error
        return error


@pytest.fixture(scope="module")
def hub():
    server = HubServer()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def no_fault(hub):
    """Each test begins with a hub that works and has not been asked anything."""
    hub.faults.clear()
    hub.requests.clear()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def client(hub, home):
    with Client(hub.url, home) as running:
        yield running


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """The folder whose files the hub has."""
    return write_folder(tmp_path_factory.mktemp("toy"))


def contents(folder: Path) -> dict[str, bytes]:
    return {f.name: f.read_bytes() for f in folder.iterdir()}


def loaded(folder: Path) -> list:
    return fingerprint(md.load(folder))


# --- what is fetched ---


def test_only_what_is_needed_is_fetched_and_only_once(hub, client, toy):
    hub.add("owner/model", contents(toy) | {file: b"x" for file in OTHERS})
    assert client.load("owner/model") == loaded(toy)
    assert hub.fetched() == NEEDED
    hub.requests.clear()
    assert client.load("owner/model") == loaded(toy)
    assert [(r.method, r.path) for r in hub.requests] == [("GET", "/api/models/owner/model/revision/main")]


def index(*shards: str) -> bytes:
    return json.dumps({"weight_map": {f"tensor {i}": shard for i, shard in enumerate(shards)}}).encode()


SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
BINS = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"]
SAFE_INDEX, BIN_INDEX = "model.safetensors.index.json", "pytorch_model.bin.index.json"
HAS_AND_NEEDS = {
    "safetensors before torch": (["model.safetensors", "pytorch_model.bin"], ["model.safetensors"]),
    "one file before shards": (["model.safetensors", SAFE_INDEX, *SHARDS], ["model.safetensors"]),
    "shards of the index": ([SAFE_INDEX, *SHARDS, "model-00003-of-00003.safetensors"], [SAFE_INDEX, *SHARDS]),
    "shards before torch": ([SAFE_INDEX, *SHARDS, "pytorch_model.bin"], [SAFE_INDEX, *SHARDS]),
    "torch": (["pytorch_model.bin"], ["pytorch_model.bin"]),
    "torch shards": ([BIN_INDEX, *BINS, "pytorch_model-00003-of-00003.bin"], [BIN_INDEX, *BINS]),
    "settings": (["model.safetensors", "generation_config.json", "tokenizer_config.json", "special_tokens_map.json"],
                 ["model.safetensors", "generation_config.json", "tokenizer_config.json", "special_tokens_map.json"]),
    "one tokenizer": (["model.safetensors", "tokenizer.json", "vocab.json", "merges.txt"],
                      ["model.safetensors", "tokenizer.json"]),
    "FSMT": (["pytorch_model.bin", "vocab-src.json", "vocab-tgt.json", "merges.txt"],
             ["pytorch_model.bin", "vocab-src.json", "vocab-tgt.json", "merges.txt"]),
    "Marian": (["model.safetensors", "source.spm", "target.spm", "vocab.json", "tokenizer.json"],
               ["model.safetensors", "source.spm", "target.spm", "vocab.json"]),
    "chat": (["model.safetensors", "tokenizer.json", "chat_template.jinja"],
             ["model.safetensors", "tokenizer.json", "chat_template.jinja"]),
    "prompts of vectors": (["model.safetensors", "vocab.txt", "modules.json", "config_sentence_transformers.json"],
                           ["model.safetensors", "vocab.txt", "modules.json", "config_sentence_transformers.json"]),
    "fairseq": (["model.safetensors", "dict.de.txt", "dict.en.txt", "bpecodes"],
                ["model.safetensors", "dict.de.txt", "dict.en.txt", "bpecodes"]),
    "two halves": (["model.safetensors", "vocab.json", "merges.txt"],
                   ["model.safetensors", "vocab.json", "merges.txt"]),
}  # fmt: skip


@pytest.mark.parametrize(("has", "needs"), HAS_AND_NEEDS.values(), ids=HAS_AND_NEEDS)
def test_the_choice_of_files(hub, client, toy, has, needs, request):
    name = f"choice/{request.node.callspec.id.replace(' ', '-')}"
    files = {file: f"{name} {file}".encode() for file in [*has, *OTHERS]}
    files |= {SAFE_INDEX: index(*SHARDS)} if SAFE_INDEX in has else {}
    files |= {BIN_INDEX: index(*BINS)} if BIN_INDEX in has else {}
    hub.add(name, files | {"config.json": json.dumps(CONFIG | {"of": name}).encode()})
    assert client.files(name) == sorted([*needs, "config.json"]) == hub.fetched()


def test_shards_and_the_two_halves_of_a_tokenizer_load(hub, client, toy, tmp_path):
    folder = write_folder(tmp_path / "sharded")
    write_shards(folder, md.load(toy).tensors)
    write_bpe(folder)
    for name in ("model.safetensors", "tokenizer.json"):
        (folder / name).unlink()
    hub.add("owner/sharded", contents(folder))
    assert client.load("owner/sharded") == loaded(toy)


@pytest.mark.parametrize("form", ["safetensors", "bin"])
def test_a_shard_that_the_cache_lacks_is_fetched_or_named(hub, client, home, toy, tmp_path, form):
    """A download that was interrupted, or another tool, leaves a snapshot with some of its shards."""
    names, listed = (SHARDS, SAFE_INDEX) if form == "safetensors" else (BINS, BIN_INDEX)
    folder = write_folder(tmp_path / "sharded")
    (folder / "model.safetensors").unlink()
    if form == "safetensors":
        write_shards(folder, md.load(toy).tensors)
    else:
        halves = [{}, {}]
        for i, (name, tensor) in enumerate(md.load(toy).tensors.items()):
            halves[i % 2][name] = tensor
        weight_map = {name: file for file, half in zip(names, halves, strict=True) for name in half}
        (folder / listed).write_text(json.dumps({"weight_map": weight_map}))
        for file, half in zip(names, halves, strict=True):
            (folder / file).write_bytes(written(half))
    name = f"missing/{form}"
    commit = hub.add(name, contents(folder))
    cached = Path(client.ask("folder", name, revision=commit)["folder"])
    for shard in names:
        (cached / shard).unlink()
        hub.requests.clear()
        assert client.load(name, revision=commit) == loaded(toy)
        assert (cached / shard).exists() and len(hub.fetched()) <= 1, "the others are there"
    (cached / names[1]).unlink()
    with Client(hub.url, home, HF_HUB_OFFLINE="1") as offline:
        assert "HF_HUB_OFFLINE forbids asking the hub" in offline.refusal(name)


def test_a_torch_file_loads(hub, client, toy, tmp_path):
    folder = write_folder(tmp_path / "torch")
    (folder / "pytorch_model.bin").write_bytes(written(md.load(toy).tensors))
    (folder / "model.safetensors").unlink()
    hub.add("owner/torch", contents(folder))
    assert client.load("owner/torch") == loaded(toy)


def test_a_model_of_another_kind_is_refused_before_its_weights_are_fetched(hub, client, toy):
    hub.add("owner/electra", contents(toy) | {"config.json": b'{"model_type": "electra"}'})
    assert "model_type 'electra' is not known" in client.refusal("owner/electra")
    assert hub.fetched() == ["config.json"]


def test_random_weights_need_no_weights(hub, client, toy):
    hub.add("owner/shapes", contents(toy))
    client.load("owner/shapes", random_weights=True)
    assert hub.fetched() == ["config.json", "tokenizer.json"]
    client.load("owner/shapes")
    assert hub.fetched() == NEEDED


# --- revisions ---


def test_branches_tags_and_commits(hub, client, toy, tmp_path):
    other = write_folder(tmp_path / "other", n_layer=1)
    main = hub.add("owner/revisions", contents(toy))
    tag = hub.add("owner/revisions", contents(other), ref="v1.0")
    assert client.load("owner/revisions", revision="v1.0") == loaded(other)
    assert client.load("owner/revisions", revision="main") == client.load("owner/revisions") == loaded(toy)
    assert client.load("owner/revisions", revision=main) == loaded(toy)
    hub.requests.clear()
    assert client.load("owner/revisions", revision=tag) == loaded(other)
    assert hub.requests == [], "a commit never changes: nobody needs to be asked"


def test_a_commit_of_which_only_a_part_is_there_is_completed(hub, client, toy):
    """Another tool, or random_weights, may have fetched the config and the weights alone."""
    files = contents(toy) | {"generation_config.json": b'{"max_new_tokens": 1}'}
    commit = hub.add("owner/part", files)
    folder = Path(client.ask("folder", "owner/part", revision=commit)["folder"])
    for name in ("generation_config.json", "tokenizer.json"):
        (folder / name).unlink()
    assert Path(client.ask("folder", "owner/part", revision=commit)["folder"]) == folder
    assert (folder / "generation_config.json").exists() and (folder / "tokenizer.json").exists()


@pytest.mark.parametrize("file", ["source.spm", "sentencepiece.bpe.model", "vocab-src.json", "dict.de.txt"])
def test_a_translators_tokenizer_that_another_tool_has_fetched_is_one(tmp_path, file):
    """Without a network, a warning of a missing tokenizer would be wrong."""
    folder = tmp_path / "snapshots" / "0" / "x"
    folder.mkdir(parents=True)
    (folder / "generation_config.json").write_text("{}")
    assert _perhaps_unfetched(folder) == ["tokenizer"]
    (folder / file).write_text("")
    assert _perhaps_unfetched(folder) == []


def test_a_branch_that_has_moved(hub, client, toy, tmp_path):
    hub.add("owner/moving", contents(toy))
    client.load("owner/moving")
    moved = write_folder(tmp_path / "moved", layer_norm_epsilon=0.9)
    hub.add("owner/moving", contents(moved))
    hub.requests.clear()
    assert client.load("owner/moving") == loaded(moved) != loaded(toy)
    assert hub.fetched() == ["config.json"], "the files that are as they were lie in the cache"


def test_an_unknown_revision(hub, client, toy):
    hub.add("owner/one-branch", contents(toy))
    for _ in "before", "after":
        refusal = client.refusal("owner/one-branch", revision="v9")
        assert "owner/one-branch" in refusal and "no branch, tag or commit 'v9'" in refusal
        client.load("owner/one-branch")


def test_a_revision_of_a_folder_means_nothing(toy):
    with pytest.raises(md.OptionError, match="revision='main' is for models on the hub"):
        md.load(toy, revision="main")


# --- names ---

IDS = ["gpt2", "my-gpt", "facebook/bart-base", "a/b", "sshleifer/distilbart-12-6", "X_1/y.z", "x" * 96]
NO_IDS = ["", ".", "..", "./gpt", "../gpt", "~/gpt", "/gpt", "gpt/", "a/b/c", "a b", "gpt\n", "C:\\gpt", "hub:gpt", "é",
          "-gpt", "gpt-", "a--b", "a..b", "owner/.git", "gpt.git", "x" * 97]  # fmt: skip


@pytest.mark.parametrize("name", IDS)
def test_hub_ids(name):
    assert looks_like_id(name)


@pytest.mark.parametrize("name", NO_IDS)
def test_what_is_no_hub_id(name):
    assert not looks_like_id(name)


@pytest.mark.parametrize("name", ["./my-gpt", "../my-gpt", "~/my-gpt", "/no/my-gpt", "models/of/mine", Path("my-gpt")])
def test_a_path_is_never_looked_up_on_the_hub(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("minidecode.files.hub.fetch_model_folder", lambda *_, **__: pytest.fail("asked the hub"))
    with pytest.raises(md.CheckpointError, match="is neither a bundled model nor a folder: name "):
        md.load(name)


def test_a_folder_goes_before_the_hub(toy, monkeypatch):
    monkeypatch.chdir(toy.parent)
    monkeypatch.setattr("minidecode.files.hub.fetch_model_folder", lambda *_, **__: pytest.fail("asked the hub"))
    assert find_folder(toy.name).resolve() == toy


# --- no network ---


def bundled_and_folder(refusal: str) -> bool:
    """Whether a message names what can be used without the hub."""
    return "tiny-gpt2" in refusal and "a folder with a config.json" in refusal


NO_NETWORK = {
    "switched off": ({"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE"),
    "no connection": ({"HF_ENDPOINT": "http://127.0.0.1:9"}, "no network: http://127.0.0.1:9 cannot be reached"),
}


@pytest.mark.parametrize(("settings", "says"), NO_NETWORK.values(), ids=NO_NETWORK)
def test_without_a_network(hub, client, home, toy, settings, says):
    """One line and no long wait; what is whole in the cache loads as ever, and what is not is not tried."""
    hub.add("owner/cached", contents(toy))
    client.load("owner/cached")
    hub.add("owner/half", contents(toy))
    hub.faults["model.safetensors"] = 404
    client.refusal("owner/half")
    with Client(hub.url, home, **settings) as offline:
        answer = offline.ask("load", "my-gpt")
        assert "'my-gpt' is neither a bundled model nor a folder nor in the hub's cache" in answer["error"]
        assert says in answer["error"] and bundled_and_folder(answer["error"]) and "\n" not in answer["error"]
        assert answer["naps"] == 0, "nothing is tried again after a while"
        assert offline.load("owner/cached") == loaded(toy)
        assert "nor in the hub's cache" in offline.refusal("owner/half")


def test_a_hub_that_does_not_answer_is_not_waited_for(hub, client):
    """As where a firewall swallows what is sent: nothing says that there is no network. It is asked once."""
    hub.faults["api"] = "silent"
    answer = client.ask("load", "my-gpt")
    assert "did not answer within 4 s" in answer["error"] and bundled_and_folder(answer["error"])
    assert hub.listings() == 1 and answer["naps"] == 0


def test_the_wait_can_be_set_and_ends_with_what_is_in_the_cache(hub, client, home, toy):
    hub.add("owner/cached", contents(toy))
    client.load("owner/cached")
    hub.faults["api"] = "silent"
    hub.requests.clear()
    with Client(hub.url, home, HF_HUB_ETAG_TIMEOUT="1") as impatient:
        assert impatient.load("owner/cached") == loaded(toy) and hub.listings() == 1
        assert "did not answer within 1 s" in impatient.refusal("my-gpt")


# --- refusals ---

ANSWERS = {
    "no such repository": (404, ["no model of that name", "HTTP 404", "set HF_TOKEN"]),
    "private": (401, ["no model of that name", "HTTP 401", "set HF_TOKEN"]),
    "gated": (403, ["owner/refused on the hub is gated", "ask for access", "HF_TOKEN", "none is set"]),
    "server error": (500, ["HTTP 500", "try again later"]),
    "too many requests": (429, ["HTTP 429", "try again later"]),
    "a login page": ("not json", ["is not from a hub", "log in"]),
}


@pytest.mark.parametrize(("fault", "says"), ANSWERS.values(), ids=ANSWERS)
def test_what_the_hub_answers(hub, client, fault, says):
    hub.faults["api"] = fault
    refusal = client.refusal("owner/refused")
    assert all(part in refusal for part in says), refusal
    assert fault == 403 or bundled_and_folder(refusal)
    assert len(hub.requests) == 1, "nothing is asked twice"


@pytest.mark.parametrize("status", [401, 403])
def test_the_files_of_a_gated_model(hub, client, toy, status):
    """Its listing is public: the refusal comes with the first file."""
    hub.add(f"owner/gated-{status}", contents(toy))
    hub.faults["config.json"] = status
    refusal = client.refusal(f"owner/gated-{status}")
    assert f"owner/gated-{status} on the hub is gated" in refusal and "HF_TOKEN" in refusal


def test_the_token_goes_to_the_hub_and_to_nobody_else(hub, toy, tmp_path):
    hub.add("owner/private", contents(toy))
    with Client(hub.url, tmp_path / "home", HF_TOKEN="hf_secret") as member:
        member.load("owner/private")
        hub.faults["api"] = 403
        assert "the one in use has no access" in member.refusal("owner/other")
    sent = {r.path.startswith("/cdn/"): r.headers.get("authorization") for r in hub.requests}
    assert sent == {False: "Bearer hf_secret", True: None}


INCOMPLETE = {
    "no config": (["config.json"], {}, "owner/incomplete on the hub has no config.json"),
    "no weights": (["model.safetensors"], {"tf_model.h5": b"x"}, "neither model.safetensors nor pytorch_model.bin; "
                   "it has tf_model.h5"),
    "no shard": (["model.safetensors"], {SAFE_INDEX: index(*SHARDS), SHARDS[0]: b"x"}, f"lists {SHARDS[1]}, which is"),
    "no index": (["model.safetensors"], {SAFE_INDEX: b'{"weight_map": [1]}'}, "weight_map should give a file name"),
    "a shard elsewhere": (["model.safetensors"], {SAFE_INDEX: index("../../x")}, "'../../x' is not the name of"),
    # names that the hub's own listing has, too
    "a shard above": (["model.safetensors"], {SAFE_INDEX: index("../x.safetensors"), "../x.safetensors": b"x"},
                      "'../x.safetensors' is not the name of a *.safetensors file in the same folder"),
    "an absolute shard": (["model.safetensors"], {SAFE_INDEX: index("/x.safetensors"), "/x.safetensors": b"x"},
                          "'/x.safetensors' is not the name of"),
    "an adapter": (["config.json", "model.safetensors"], {"adapter_config.json": b"{}"},
                   "owner/incomplete on the hub holds a PEFT adapter, not a whole model: merge it into its base model"),
}  # fmt: skip


@pytest.mark.parametrize(("without", "extra", "says"), INCOMPLETE.values(), ids=INCOMPLETE)
def test_a_repository_that_lacks_something(hub, client, toy, without, extra, says):
    hub.add("owner/incomplete", {f: c for f, c in contents(toy).items() if f not in without} | extra)
    assert says in client.refusal("owner/incomplete")


# --- downloads that go wrong ---


@pytest.mark.parametrize(
    ("fault", "says"), [("truncate", "broke off"), ("short", "broke off"), ("corrupt", "corrupted")]
)
def test_a_bad_download_is_refused_and_the_next_one_works(hub, client, toy, fault, says):
    name = f"download/{fault}"
    hub.add(name, contents(toy))
    hub.faults["model.safetensors"] = fault
    refusal = client.refusal(name)
    assert says in refusal and "try again" in refusal and f"model.safetensors from {name}" in refusal
    hub.faults.clear()
    hub.requests.clear()
    assert client.load(name) == loaded(toy)
    assert hub.fetched() == ["model.safetensors"], "what had arrived well is kept"


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json"])
def test_small_files_are_checked_too(hub, client, toy, file):
    name = f"corrupt/{file}"
    hub.add(name, contents(toy))
    hub.faults[file] = "corrupt"
    assert f"the download of {file} from {name} was corrupted" in client.refusal(name)
    hub.faults.clear()
    assert client.load(name) == loaded(toy)


def test_a_corrupted_shard(hub, client, toy, tmp_path):
    folder = write_folder(tmp_path / "sharded")
    write_shards(folder, md.load(toy).tensors)
    (folder / "model.safetensors").unlink()
    hub.add("corrupt/shards", contents(folder))
    hub.faults[SHARDS[1]] = "corrupt"
    assert f"the download of {SHARDS[1]} from corrupt/shards was corrupted" in client.refusal("corrupt/shards")
    hub.faults.clear()
    assert client.load("corrupt/shards") == loaded(toy)


def test_a_large_file_is_checked_whole(hub, client, tmp_path):
    """Its middle lies behind the first of the parts that are read of it, and before the last."""
    large = write_folder(tmp_path / "large", n_positions=100_000)
    assert (large / "model.safetensors").stat().st_size > 3 * 2**20
    hub.add("corrupt/large", contents(large))
    hub.faults["model.safetensors"] = "corrupt"
    assert "the download of model.safetensors from corrupt/large was corrupted" in client.refusal("corrupt/large")
    hub.faults.clear()
    assert client.load("corrupt/large") == loaded(large)


def test_a_connection_that_breaks_once_is_taken_up_again(hub, client, toy):
    hub.add("download/once", contents(toy))
    hub.faults["model.safetensors"] = "truncate once"
    assert client.load("download/once") == loaded(toy)
    assert hub.fetched().count("model.safetensors") == 2


def test_an_interrupt_leaves_nothing_unchecked(monkeypatch, tmp_path):
    """The client has put the file in its place when the check begins."""
    blob, link = tmp_path / "blob", tmp_path / "model.safetensors"
    blob.write_bytes(b"who knows")
    link.symlink_to(blob.name)
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_, **__: None)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda *_, **__: str(link))
    monkeypatch.setattr("minidecode.files.hub._verify", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        _fetch_file("owner/model", "model.safetensors", Listing("0" * 40, {"model.safetensors": None}))
    assert os.listdir(tmp_path) == []


def test_a_cache_that_cannot_be_written(hub, toy, tmp_path):
    hub.add("owner/stored", contents(toy))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "hub").write_text("no folder")
    with Client(hub.url, tmp_path / "home") as locked:
        refusal = locked.refusal("owner/stored")
    assert f"config.json from owner/stored cannot be stored in {tmp_path}" in refusal and "HF_HOME" in refusal


# --- the command line ---

BART = {"model_type": "bart", "d_model": 8, "encoder_attention_heads": 2, "decoder_attention_heads": 2}


def minidecode(hub, home: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "minidecode.commands.cli", *arguments]
    how = {"env": environment(hub.url, home, **settings), "capture_output": True, "text": True}
    return subprocess.run(command, timeout=50, **how)  # less than a silent hub takes


def test_generate_from_the_hub_and_list_the_cache(hub, client, home, toy, tmp_path):
    hub.add("cli/gpt", contents(write_folder(tmp_path / "other", n_layer=1)))
    hub.add("cli/gpt", contents(toy), ref="v1")
    ran = minidecode(hub, home, "generate", "the", "--model", "cli/gpt", "--revision", "v1", "--max-new-tokens", "3")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == md.load(toy).generate("the", max_new_tokens=3).texts[0] + "\n"
    assert ran.stderr.count("\n") == 1 and "cli/gpt" in ran.stderr

    hub.add("cli/bart", contents(toy) | {"config.json": json.dumps(BART).encode()})
    client.files("cli/bart")
    hub.add("cli/half", contents(toy))
    hub.faults["model.safetensors"] = 404
    client.refusal("cli/half")
    rows = json.loads(minidecode(hub, home, "models", "--json").stdout)
    cached = {row["name"]: row["model_type"] for row in rows if row["name"].startswith("cli/")}
    assert cached == {"cli/gpt": "gpt2", "cli/bart": "bart"}


def test_an_error_is_one_line(hub, tmp_path):
    """Also when the request is still under way as the process ends: nothing answers it for a minute."""
    hub.faults["api"] = "silent"
    ran = minidecode(hub, tmp_path / "home", "generate", "the", "-m", "my-gpt", HF_HUB_ETAG_TIMEOUT="1")
    assert ran.returncode == 1 and ran.stdout == ""
    assert ran.stderr.startswith("minidecode: 'my-gpt' is neither") and ran.stderr.count("\n") == 1
    assert hub.listings() == 1


@pytest.mark.parametrize("quiet", [False, True])
def test_the_progress_bar_is_for_a_terminal(hub, toy, tmp_path, quiet):
    pty, termios = pytest.importorskip("pty"), pytest.importorskip("termios")
    hub.add("owner/toy", contents(toy))
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (25, 100))
    command = [sys.executable, "-m", "minidecode.commands.cli", "generate", "the", "-m", "owner/toy", *["-q"] * quiet]
    subprocess.run(command, env=environment(hub.url, tmp_path / "home"), stdout=subprocess.DEVNULL, stderr=theirs)
    os.set_blocking(ours, False)
    try:
        shown = os.read(ours, 1 << 16).decode()
    except BlockingIOError:
        shown = ""
    os.close(theirs)
    os.close(ours)
    if quiet:
        assert shown == ""
    else:
        assert re.search(r"model\.safetensors: +100%", shown)
