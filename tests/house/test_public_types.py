"""Every public function and method says the types of what it takes and returns."""

import inspect
from collections.abc import Iterator

import pytest

import minidecode


def functions() -> Iterator[tuple[str, object]]:
    """(name, function): those of the package's top level, and what its classes have without an underscore."""
    for name in minidecode.__all__:
        thing = getattr(minidecode, name)
        if inspect.isclass(thing):
            for own, member in vars(thing).items():
                function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
                if inspect.isfunction(function) and (own == "__init__" or not own.startswith("_")):
                    yield f"{name}.{own}", function
        elif inspect.isfunction(thing):
            yield name, thing


@pytest.mark.parametrize(("name", "function"), functions(), ids=lambda x: x if isinstance(x, str) else "")
def test_a_public_function_is_annotated_in_full(name, function):
    signature = inspect.signature(function)
    bare = [p.name for p in signature.parameters.values() if p.annotation is p.empty and p.name not in ("self", "cls")]
    assert not bare
    assert name.endswith(".__init__") or signature.return_annotation is not signature.empty
