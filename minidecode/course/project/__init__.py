"""The course project: a decoder that a student writes, a stage at the end of each chapter; checked and raced.

`checkpoint` writes the model that a student loads, `stages` says what each stage must do, `measure` counts what their
code multiplies and holds, `run` is the process in which it runs, and `race` times it.
"""
