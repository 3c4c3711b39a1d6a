"""The course project: a decoder that a student writes, a stage at the end of each chapter; checked and raced.

`checkpoint` writes the model that a student loads, `stages` says what each stage must do, `engine` calls a student's
functions in locked processes (`engine_child`, `elsewhere`), `weights` makes and counts their products, and `race` times
them, in the process `run`.
"""
