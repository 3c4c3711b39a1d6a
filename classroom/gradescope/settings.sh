# What a teacher fills in.
HIDDEN=20261122        # seed of the inputs that `minidecode exercise check` never shows: keep it to yourself
EXERCISES="15 16"      # the exercises that are due; each is worth one point
STAGES=""              # or stages of the course project, such as "1 2 3": then engine.py is graded, and no exercises
PER_STUDENT=""         # email or name: due is what `start --student` drew for the student's email address or name at
                       # Gradescope, as it stands there; empty: any variation is taken
# Where minidecode is installed from, which is in no package index: a git address, such as
# git+https://HOST/YOU/minidecode@TAG, or a wheel's address. Empty: from wheels/ beside this file (docs/teaching.md).
MINIDECODE_FROM=""
