"""The thirty exercises: `start` writes a skeleton, `check` and `grade` judge what a student made of it.

docs/EXERCISES.md says how one is written and what the grader withstands.
"""
