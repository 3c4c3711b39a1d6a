"""Both take the same time: the weights drop out."""

# --- variation
GIGA_OPERATIONS_PER_SECOND = 500
GIGABYTES_PER_SECOND = 25
MILLION_WEIGHTS = 124
BYTES_PER_WEIGHT = 4
# --- end

# --- your turn: sentences from which on arithmetic takes longer
#| BATCH = None
BATCH = GIGA_OPERATIONS_PER_SECOND * BYTES_PER_WEIGHT / (2 * GIGABYTES_PER_SECOND)
# --- end
