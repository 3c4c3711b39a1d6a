# What a teacher fills in.
HIDDEN=20261122        # seed of the inputs that `minidecode exercise check` never shows: keep it to yourself
EXERCISES="15 16"      # the exercises that are due; each is worth one point
