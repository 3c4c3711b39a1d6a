"""The types that checkers of users' programs see: complete, and shipped."""

import dataclasses
import inspect
import typing
from pathlib import Path

import minidecode as md
from minidecode.options.options import Options
from minidecode.options.typed_dict import GenerateOptions
from minidecode.search.streaming import StreamOptions

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
    of_a_call = set(inspect.signature(md.Model.generate).parameters) - {"self", "prompts", "options"}
    own = set(typing.get_type_hints(StreamOptions)) - set(typing.get_type_hints(GenerateOptions))
    assert own == of_a_call - {"input_ids", "attention_mask", "streamer"}


def test_the_package_says_that_it_has_types():
    assert (Path(md.__file__).parent / "py.typed").exists()
