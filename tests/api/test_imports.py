"""`import minidecode` is quick: it loads its errors, and each other public name when it is asked for."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import minidecode as md


def loaded_by(statement: str) -> set[str]:
    """The modules of the package and of site-packages that a fresh process has after a statement."""
    code = f"""import sys, sysconfig
before = set(sys.modules)
{statement}
where = sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"]
for name in set(sys.modules) - before:
    file = getattr(sys.modules[name], "__file__", None) or ""
    if name.partition(".")[0] == "minidecode" or ("." not in name and file.startswith(where)):
        print(name)"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_the_package_loads_its_errors_alone():
    assert loaded_by("import minidecode") == {
        "minidecode", "minidecode.commands", "minidecode.commands.startup", "minidecode.errors"
    }  # fmt: skip


def test_the_emulator_needs_numpy_greenlet_and_its_own_files():
    loaded = loaded_by("import minidecode.emulator")
    other = {name for name in loaded if not name.startswith("minidecode.emulator")}
    assert other - loaded_by("import minidecode") == {
        "numpy", "greenlet", "minidecode.device", "minidecode.device.seen_kernels", "minidecode.within"
    }  # fmt: skip


def test_checks_of_ops_load_no_model_and_no_search():
    loaded = {name.split(".")[1] for name in loaded_by("import minidecode.conformance.check") if "." in name}
    assert not loaded & {"models", "search", "runtime", "files", "methods", "cache", "options", "model"}


def test_public_names_are_declared_alike_for_programs_and_for_type_checkers():
    tree = ast.parse(Path(md.__file__).read_text(encoding="utf-8"))
    typed = next(node for node in tree.body if isinstance(node, ast.If))
    declared = {alias.name: node.module for node in typed.body for alias in node.names}
    assert declared.pop("conformance") is None
    assert declared == md.LOADED_LATE
    errors = next(n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "errors")
    assert sorted([*declared, "conformance", *(alias.name for alias in errors.names)]) == md.__all__


def test_each_public_name_is_there():
    for name in md.__all__:
        assert getattr(md, name) is not None


def test_dir_lists_public_names_alone():
    """As completion shows them: also after submodules were loaded, which Python then adds to the package."""
    importlib.import_module("minidecode.cache")
    listed = [name for name in dir(md) if not name.startswith("__")]
    assert listed == md.__all__ and "cache" in vars(md) and "__version__" in dir(md)
