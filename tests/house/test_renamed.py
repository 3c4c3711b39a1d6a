"""Earlier spellings are errors that name today's."""

import pytest

import minidecode as md
from minidecode.catalog import CATALOG, RENAMED, find
from minidecode.plan import Plan


@pytest.mark.parametrize("old", RENAMED)
def test_an_old_key_of_a_plan_names_the_new_one(old):
    new = RENAMED[old]
    assert old not in CATALOG and old not in vars(Plan()) and new in vars(Plan())
    with pytest.raises(md.OptionError) as raised:
        Plan.parse(f"fast,{old}=split")
    assert str(raised.value) == f"plan: {old}=split is now {new}=split"


@pytest.mark.parametrize("old", [old for old, new in RENAMED.items() if new in CATALOG])
def test_an_old_row_of_the_catalog_names_the_new_one(old):
    with pytest.raises(md.OptionError, match=f"^{old} is now {RENAMED[old]}$"):
        find(old)


def test_the_old_name_of_a_command_names_the_new_one(cli):
    for words, says in ((["warm"], "warm is now precompile"), (["check", "within", "f.py:f"], "within is now prefill")):
        ran = cli(*words)
        assert (ran.code, ran.err) == (1, f"minidecode: {says}\n")
