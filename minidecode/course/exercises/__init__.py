"""The thirty-five exercises: skeletons, inputs, graders, and the processes that run foreign code.



docs/EXERCISES.md says how one is written and what the grader withstands.
"""
