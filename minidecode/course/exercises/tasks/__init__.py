"""One module and one text for each exercise, found by their names: eNN_name.py and eNN_name.md."""
