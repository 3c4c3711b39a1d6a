"""By what is left when N, D and the sentences have been divided out."""

# --- variation
POSITIONS = 512
SENTENCES = 16
W = 4
H = 12
D = 768
ITEMSIZE = 2
BANDWIDTH = 900
# --- end

# --- your turn: what EL computes for each byte, and the speed (10^12 operations a second) at which both take as long
#| OPERATIONS_PER_BYTE = None
#| TERA_OPERATIONS = None
OPERATIONS_PER_BYTE = 4 * W * H / ITEMSIZE
TERA_OPERATIONS = 2 * W * H / ITEMSIZE * BANDWIDTH / 1000
# --- end
