"""The types that checkers of users' programs see: complete, and shipped."""

import dataclasses
import typing
from pathlib import Path

import minidecode as md
from minidecode.model import StreamOptions
from minidecode.options.options import Options
from minidecode.options.typed_dict import GenerateOptions

OF_A_CALL = {"generation_config", "return_dict_in_generate", "output_scores"}  # read before there are Options


def test_the_types_name_every_option():
    names = set(typing.get_type_hints(GenerateOptions))
    assert names - OF_A_CALL == {field.name for field in dataclasses.fields(Options)} and names >= OF_A_CALL
    assert not GenerateOptions.__required_keys__


def test_each_method_that_takes_options_names_their_types():
    for method in (md.Model.generate, md.Model.options, md.Model.check, md.Model.footprint, md.Model.plan_step):
        assert "Unpack[GenerateOptions]" in method.__annotations__.values(), method.__name__
    assert "Unpack[GenerateOptions]" in md.generate_lines.__annotations__.values()
    assert "Unpack[StreamOptions]" in md.Model.stream.__annotations__.values()


def test_stream_takes_what_generate_takes_beside_its_inputs_and_a_streamer():
    """With the same types: Python cannot make a typed dict of a signature."""
    taken = typing.get_type_hints(md.Model.generate)
    for other in ("prompts", "options", "return", "input_ids", "attention_mask", "streamer"):
        del taken[other]
    own = set(StreamOptions.__annotations__) - set(GenerateOptions.__annotations__)
    assert {name: t for name, t in typing.get_type_hints(StreamOptions).items() if name in own} == taken


def test_the_package_says_that_it_has_types():
    assert (Path(md.__file__).parent / "py.typed").exists()
